-- ---- frames (docs/protocol.md §4.4, §4.5)

local function add_crc(tree, name, range, computed)
  local status = computed == nil and UNVERIFIED or tobit(range:le_uint()) == computed and GOOD or BAD
  local item = tree:add_le(F[name], range)
  item:append_text(string.format(" [%s]", STATUS[status]:lower()))
  tree:add(F[name .. ".status"], range, status):set_generated()
  if status == BAD then
    item:add_proto_expert_info(E.bad_crc, string.format("Bad CRC, 0x%s expected", bit.tohex(computed)))
  end
  return status
end

-- Whether a preamble lies at `at` of a Lua string; the crc leaves one chance of mistake in four thousand million.
local function is_preamble(raw, at)
  local tag, segments = byte(raw, at + 1), byte(raw, at + 2)
  return #raw - at >= PREAMBLE_SIZE and TAGS[tag] ~= nil and segments >= 1 and segments <= MAX_SEGMENTS
    and crc32c(raw:sub(at + 1, at + 28), 0) == tobit(u32_in(raw, at + 28))
end

local last_tag = 0
for tag in pairs(TAGS) do last_tag = math.max(last_tag, tag) end
local CANDIDATE = "[\1-" .. string.char(last_tag) .. "][\1-\4]"

-- The place of the next preamble or banner from `at` on; the end of what may be skipped if there is none.
local function next_start(raw, at)
  local banner = raw:find(BANNER_PREFIX, at + 1, true)
  local stop = banner and banner - 1 or #raw
  local found = raw:find(CANDIDATE, at + 1)
  while found and found <= stop do
    if is_preamble(raw, found - 1) then return found - 1, true end
    found = raw:find(CANDIDATE, found + 1)
  end
  return stop, banner ~= nil
end

local function read_preamble(raw)
  local frame = { tag = byte(raw, 1), segments = byte(raw, 2), compressed = byte(raw, 27) % 2 == 1, lengths = {} }
  frame.sum = 0
  for i = 1, MAX_SEGMENTS do
    frame.lengths[i] = i <= frame.segments and u32_in(raw, 2 + 6 * (i - 1)) or 0
    frame.sum = frame.sum + frame.lengths[i]
  end
  return frame
end

local function total_of(frame, revision)
  if revision == 0 then return PREAMBLE_SIZE + frame.sum + 17 end
  return PREAMBLE_SIZE + frame.sum + (frame.lengths[1] > 0 and 4 or 0) + (frame.segments > 1 and 13 or 0)
end

-- Which revision a frame is of, and whether a crc proves it; how many bytes it takes to tell if there are too few.
local function try_revision(tvb, at, frame)
  local first = frame.lengths[1]
  if first == 0 then return 1, false end
  local old_total = total_of(frame, 0)
  for revision = 1, 0, -1 do
    local place = revision == 1 and PREAMBLE_SIZE + first or old_total - 16
    if tvb:len() - at < place + 4 then return nil, place + 4 end
    local crc = crc32c(tvb:raw(at + PREAMBLE_SIZE, first), 0xFFFFFFFF)
    if tobit(tvb:range(at + place, 4):le_uint()) == crc then return revision, true end
  end
  return 1, false
end

local function add_preamble(tree, range, frame)
  local crc = proto.prefs.check_crc and crc32c(range:raw(0, 28), 0) or nil
  local item = tree:add(range, "Preamble")
  item:add_le(F["tag"], range:range(0, 1))
  item:add_le(F["segments"], range:range(1, 1))
  for i = 1, MAX_SEGMENTS do
    local slot = range:range(2 + 6 * (i - 1), 6)
    if i <= frame.segments then
      local part = item:add(slot, string.format("Segment %d", i - 1))
      part:add_le(F["segment.length"], slot:range(0, 4))
      part:add_le(F["segment.alignment"], slot:range(4, 2))
    end
  end
  local flags = item:add(F["flags"], range:range(26, 1))
  flags:add(F["flags.compressed"], range:range(26, 1))
  item:add(F["reserved"], range:range(27, 1))
  return add_crc(item, "preamble.crc", range:range(28, 4), crc)
end

-- Where the segments of a frame and their crcs lie, from the frame's start.
local function places_of(frame, revision)
  local places, at = {}, PREAMBLE_SIZE
  for i = 1, frame.segments do
    places[i] = { at = at, size = frame.lengths[i] }
    at = at + frame.lengths[i]
    if i == 1 and revision == 1 and frame.lengths[1] > 0 then
      places[1].crc = at
      at = at + 4
    end
  end
  if revision == 0 or frame.segments > 1 then
    places.epilogue, places.epilogue_size = at, revision == 0 and 17 or 13
    for i = 2 - (revision == 0 and 1 or 0), frame.segments do
      places[i].crc = at + 1 + 4 * (i - (revision == 0 and 1 or 2))
    end
  end
  return places
end

-- Senders with ms_crc_data off write 0 into all of them.
local function has_crcs(range, places)
  for _, place in ipairs(places) do
    if place.crc and range:range(place.crc, 4):le_uint() ~= 0 then return true end
  end
  return false
end

local function add_segment_crcs(tree, range, places, status)
  local check = proto.prefs.check_crc and has_crcs(range, places)
  for i, place in ipairs(places) do
    if place.crc then
      local data = check and (place.size > 0 and range:raw(place.at, place.size) or "")
      local item = tree:add(range:range(place.crc, 4), string.format("Segment %d", i - 1))
      local one = add_crc(item, "segment.crc", range:range(place.crc, 4), data and crc32c(data, 0xFFFFFFFF) or nil)
      if status == GOOD then status = one end
    end
  end
  return status
end

local PARTS = { "front", "middle", "data" }

local function add_message(tree, range, places)
  local header = places[1].size > 0 and range:range(places[1].at, places[1].size) or nil
  local item = tree:add(F["message"], header or range:range(0, 0))
  local told = add_checked(item, "message.", MESSAGE_HEADER, header and header:tvb())
  local name = "?"
  if header and header:len() >= 18 then
    local number = header:range(16, 2):le_uint()
    name = VALUES.message_type[number] or string.format("unknown(%d)", number)
    item:add(F["message.name"], header:range(16, 2), name):set_generated()
  end
  for i, part in ipairs(PARTS) do
    local place = places[i + 1]
    local size = place and place.size or 0
    local bytes = size > 0 and range:range(place.at, size) or nil
    tree:add(F["message." .. part .. "_len"], bytes or range:range(0, 0), size):set_generated()
    if bytes then tree:add(F["message." .. part], bytes) end
  end
  return " " .. name .. told
end

local function add_payload(tree, range, frame, places)
  if frame.compressed then
    tree:add_proto_expert_info(E.compressed, "Compressed: export the capture to read it")
    for _, place in ipairs(places) do
      if place.size > 0 then tree:add(F["segment"], range:range(place.at, place.size)) end
    end
    return " [compressed]"
  end
  if frame.tag == TAG_MESSAGE then return add_message(tree, range, places) end
  local spec, place = CONTROL[frame.tag], places[1]
  local payload = place.size > 0 and range:range(place.at, place.size) or nil
  local item = tree:add(F[spec.key], payload or range:range(0, 0))
  local told = add_checked(item, spec.key .. ".", spec, payload and payload:tvb())
  for i = 2, frame.segments do
    if places[i].size > 0 then tree:add(F["segment"], range:range(places[i].at, places[i].size)) end
  end
  return told
end

local function is_aborted(range, places, revision)
  if not places.epilogue then return false end
  local status = range:range(places.epilogue, 1):uint()
  return (revision == 0 and status % 2 or status % 16) == 1
end

-- What a frame means for its session (docs/protocol.md §4.9), for the list of expert infos.
local MEANINGS = {
  SESSION_RESET = { E.reset, "The peer does not know the session: it is reset, and its messages are dropped" },
  SESSION_RETRY = { E.refused, "Refused: connect_seq is stale" },
  SESSION_RETRY_GLOBAL = { E.refused, "Refused: global_seq is stale" },
  WAIT = { E.refused, "Refused: the peer's connection wins the race" },
  AUTH_BAD_METHOD = { E.refused, "Refused: authentication method or mode" },
  IDENT_MISSING_FEATURES = { E.refused, "Refused: features are missing" },
  SESSION_RECONNECT_OK = { E.resumed, "The session is resumed; messages without acknowledgement are sent again" },
}

local function add_frame(tree, range, frame, revision)
  local item = tree:add(proto, range)
  local places = places_of(frame, revision)
  local status = add_preamble(item, range:range(0, PREAMBLE_SIZE), frame)
  local told
  if is_aborted(range, places, revision) then
    told = " [aborted]"
    item:add(F["aborted"], range:range(places.epilogue, 1), true)
    item:add_proto_expert_info(E.aborted, "Aborted: the receiver drops it")
  else
    told = add_payload(item, range, frame, places)
  end
  local tail = item
  if places.epilogue then
    tail = item:add(range:range(places.epilogue, places.epilogue_size), "Epilogue")
    tail:add(F["late_status"], range:range(places.epilogue, 1))
  end
  status = add_segment_crcs(tail, range, places, status)
  item:add(F["length"], range:range(0, 0), range:len()):set_generated()
  item:add(F["revision"], range:range(0, 0), "2." .. revision):set_generated()
  item:add(F["crc.status"], range:range(0, 0), status):set_generated()
  local meaning = MEANINGS[TAGS[frame.tag]]
  if meaning then item:add_proto_expert_info(meaning[1], meaning[2]) end
  told = TAGS[frame.tag] .. told .. (status == BAD and " [bad crc]" or "")
  item:set_text("Ceph Messenger v2, " .. told)
  return told, item
end
