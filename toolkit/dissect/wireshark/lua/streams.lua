-- ---- what is known of a TCP stream. Facts only, so packets may be looked at again in any order.

local streams = {}
local stream_index = Field.new("tcp.stream")

function proto.init()
  streams = {}
end

local function stream_of_packet()
  local index = stream_index()
  local number = index and index.value or -1
  local stream = streams[number]
  if not stream then
    stream = { known = false, revision_1 = {}, revision = nil, secure = false, seqs = {}, jumps = {} }
    streams[number] = stream
  end
  return stream
end

local function sender_of(pinfo)
  return tostring(pinfo.src) .. " " .. pinfo.src_port
end

-- 1 or 0 by the banners (docs/protocol.md §4.2), or by what fitted earlier; nil while it is open.
local function revision_of(stream)
  local banners, agreed = 0, true
  for _, offered in pairs(stream.revision_1) do
    banners, agreed = banners + 1, agreed and offered
  end
  if not agreed then return 0 end
  if banners == 2 then return 1 end
  return stream.revision
end

-- ---- the stream: each step gives what the info column says and how far it came, or the bytes it waits for

local function waits(needed) return { needed = needed } end

local function step_over(tree, tvb, at, size, field, note, told)
  local range = tvb:range(at, size)
  local item = tree:add(proto, range)
  item:set_text("Ceph Messenger v2, " .. told)
  item:add(F[field], range)
  item:add_proto_expert_info(note, told)
  return { told = told, used = size }
end

local function add_features(item, field, range)
  local names = {}
  for bit_number, name in pairs(BITS.msgr2) do
    if range:range(math.floor(bit_number / 8), 1):bitfield(7 - bit_number % 8, 1) == 1 then
      names[#names + 1] = name
    end
  end
  table.sort(names)
  item:add_le(F[field], range):append_text(#names > 0 and " (" .. table.concat(names, ", ") .. ")" or "")
end

local function step_banner(tree, tvb, at, pinfo, stream)
  local head = #BANNER_PREFIX + 2
  local left = tvb:len() - at
  if left < head then return waits(head - left) end
  local size = tvb:range(at + head - 2, 2):le_uint()
  if left < head + size then return waits(head + size - left) end
  local range = tvb:range(at, head + size)
  local item = tree:add(proto, range)
  item:set_text("Ceph Messenger v2, BANNER")
  item:add(F["banner"], range:range(0, #BANNER_PREFIX))
  item:add_le(F["banner.length"], range:range(head - 2, 2))
  if size >= 16 then
    stream.revision_1[sender_of(pinfo)] = range:range(head, 1):uint() % 2 == 1
    add_features(item, "banner.features_supported", range:range(head, 8))
    add_features(item, "banner.features_required", range:range(head + 8, 8))
  else
    item:add_proto_expert_info(E.malformed, "The banner's payload is too short")
  end
  stream.known = true
  return { told = "BANNER", used = head + size }
end

-- Seqs grow by one on a stream (docs/protocol.md §3.6). They are compared when a packet is read first, in order.
local function check_seq(item, header, at, pinfo, stream)
  local sender, place = sender_of(pinfo), pinfo.number .. ":" .. at
  if not pinfo.visited then
    local seq = header:range(0, 4):le_uint() + header:range(4, 4):le_uint() * 2 ^ 32
    local before = stream.seqs[sender]
    if before and seq ~= before + 1 then
      stream.jumps[place] = string.format("Seq %d follows %d: messages are missing, or sent again", seq, before)
    end
    stream.seqs[sender] = seq
  end
  if stream.jumps[place] then item:add_proto_expert_info(E.order, stream.jumps[place]) end
end

local function step_frame(tree, tvb, at, pinfo, stream, raw)
  local frame = read_preamble(raw)
  local left, revision = tvb:len() - at, revision_of(stream)
  if not revision then
    local proven
    revision, proven = try_revision(tvb, at, frame)
    if not revision then return waits(proven - left) end
    if proven then stream.revision = revision end
  end
  local total = total_of(frame, revision)
  if left < total then return waits(total - left) end
  stream.known = true
  if frame.tag == TAG_AUTH_DONE and not frame.compressed and frame.lengths[1] >= 12 then
    stream.secure = stream.secure or tvb:range(at + PREAMBLE_SIZE + 8, 4):le_uint() == CON_MODE_SECURE
  end
  local told, item = add_frame(tree, tvb:range(at, total), frame, revision)
  if frame.tag == TAG_MESSAGE and not frame.compressed and frame.lengths[1] >= 8 then
    check_seq(item, tvb:range(at + PREAMBLE_SIZE, 8), at, pinfo, stream)
  elseif frame.tag == TAG_MESSAGE then
    stream.seqs[sender_of(pinfo)] = nil
  end
  return { told = told, used = total }
end

local function step(tree, tvb, at, pinfo, stream)
  local left = tvb:len() - at
  local head = tvb:raw(at, math.min(left, PREAMBLE_SIZE))
  local prefix = math.min(left, #BANNER_PREFIX)
  if head:sub(1, prefix) == BANNER_PREFIX:sub(1, prefix) then
    return step_banner(tree, tvb, at, pinfo, stream)
  end
  if is_preamble(head, 0) then
    local frame = read_preamble(head)
    if total_of(frame, 0) <= LONGEST_FRAME then return step_frame(tree, tvb, at, pinfo, stream, head) end
  elseif left < PREAMBLE_SIZE and not stream.secure then
    return waits(PREAMBLE_SIZE - left)
  end
  if stream.secure then
    return step_over(tree, tvb, at, left, "encrypted", E.encrypted, "encrypted (export the capture decrypted first)")
  end
  stream.seqs[sender_of(pinfo)] = nil
  local stop = next_start(tvb:raw(at, left), 1)
  return step_over(tree, tvb, at, stop, "unknown", E.unknown, "not a frame")
end

local function show_info(pinfo, told)
  pinfo.cols.protocol = "MSGR2"
  pinfo.cols.info:clear()
  local text, shown = "", 0
  while shown < #told and #text < LONGEST_INFO do
    shown = shown + 1
    text = text .. (shown > 1 and ", " or "") .. told[shown]
  end
  if shown < #told then text = text .. string.format(" and %d more", #told - shown) end
  pinfo.cols.info:set(text)
end

local function dissect_stream(tvb, pinfo, tree, stream)
  local at, size, told = 0, tvb:len(), {}
  while at < size do
    local result = step(tree, tvb, at, pinfo, stream)
    if result.needed then
      if pinfo.can_desegment > 0 then
        pinfo.desegment_offset, pinfo.desegment_len = at, result.needed
      else
        tree:add(proto, tvb:range(at)):set_text("Ceph Messenger v2, part of a frame")
        told[#told + 1] = "part of a frame"
      end
      break
    end
    told[#told + 1] = result.told
    at = at + result.used
  end
  if #told > 0 then show_info(pinfo, told) end
  return size
end

local function begins_as_v2(tvb)
  local raw = tvb:raw(0, math.min(tvb:len(), PREAMBLE_SIZE))
  return raw:sub(1, #BANNER_PREFIX) == BANNER_PREFIX or is_preamble(raw, 0)
end

-- On Ceph's ports: what is v2 from its start, or in its midst; anything else is left to others (msgr v1).
function proto.dissector(tvb, pinfo, tree)
  local stream = stream_of_packet()
  if not (stream.known or begins_as_v2(tvb)) then
    local raw = tvb:raw()
    local _, found = next_start(raw, 1)
    if not found then return 0 end
    stream.known = true
  end
  return dissect_stream(tvb, pinfo, tree, stream)
end

-- On any port: what begins as v2.
proto:register_heuristic("tcp", function(tvb, pinfo, tree)
  if not begins_as_v2(tvb) then return false end
  pinfo.conversation = proto
  dissect_stream(tvb, pinfo, tree, stream_of_packet())
  return true
end)

DissectorTable.get("tcp.port"):add(PORTS, proto)
