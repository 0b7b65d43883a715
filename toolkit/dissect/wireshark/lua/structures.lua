-- ---- structures inside payloads. A cursor raises SHORT where the payload ends too early.

local SHORT = {}

local function cursor_over(tvb)
  local cursor = { tvb = tvb, at = 0, size = tvb and tvb:len() or 0 }
  function cursor:take(size)
    if size > self.size - self.at then error(SHORT, 0) end
    local range = self.tvb:range(self.at, size)
    self.at = self.at + size
    return range
  end
  function cursor:since(start)
    return self.tvb:range(start, self.at - start)
  end
  return cursor
end

local PREFIXES = { [1] = "v1:", [2] = "v2:", [3] = "", [4] = "cidr:" }

local function ipv6_text(range)
  local groups, best, best_size, run = {}, 0, 1, 0
  for i = 0, 7 do
    groups[i + 1] = string.format("%x", range:range(2 * i, 2):uint())
    run = groups[i + 1] == "0" and run + 1 or 0
    if run > best_size then best, best_size = i + 2 - run, run end
  end
  if best == 0 then return table.concat(groups, ":") end
  return table.concat(groups, ":", 1, best - 1) .. "::" .. table.concat(groups, ":", best + best_size, 8)
end

-- A socket address behind its family (docs/protocol.md §1.3): host and port as text, and what to show below.
local function read_sockaddr(cursor, family, size, parts)
  local stop = cursor.at + size
  local host, port = "", 0
  if (family == 2 and size >= 6) or (family == 10 and size >= 22) then
    local range = cursor:take(2)
    port = range:uint()
    parts[#parts + 1] = { F["addr.port"], range, "add" }
    if family == 10 then cursor:take(4) end
    local ip = cursor:take(family == 2 and 4 or 16)
    parts[#parts + 1] = { F[family == 2 and "addr.ipv4" or "addr.ipv6"], ip, "add" }
    host = family == 2 and string.format("%d.%d.%d.%d", byte(ip:raw(), 1, 4)) or "[" .. ipv6_text(ip) .. "]"
  end
  cursor:take(stop - cursor.at)
  return string.format("%s:%d", host, port)
end

local function read_form_a(cursor, parts)
  cursor:take(3)
  local nonce, family = cursor:take(4), cursor:take(2):uint()
  parts[1] = { F["addr.nonce"], nonce, "add_le" }
  local text = read_sockaddr(cursor, family, 126, parts)
  return family == 0 and "-" or string.format("v1:%s/%.0f", text, nonce:le_uint())
end

local function read_form_b(cursor, parts)
  cursor:take(2)
  local stop = cursor:take(4):le_uint()
  stop = stop + cursor.at
  local kind, nonce, size = cursor:take(4), cursor:take(4), cursor:take(4):le_uint()
  parts[1] = { F["addr.type"], kind, "add_le" }
  parts[2] = { F["addr.nonce"], nonce, "add_le" }
  local family = size >= 2 and cursor:take(2):le_uint() or 0
  local text = read_sockaddr(cursor, family, math.max(size - 2, 0), parts)
  if stop < cursor.at then error(SHORT, 0) end
  cursor:take(stop - cursor.at)
  local prefix = PREFIXES[kind:le_uint()]
  return prefix and string.format("%s%s/%.0f", prefix, text, nonce:le_uint()) or "-"
end

local function read_address(cursor, marker, start)
  local parts = {}
  if marker > 1 then error(SHORT, 0) end
  local text = (marker == 0 and read_form_a or read_form_b)(cursor, parts)
  return { text = text, parts = parts, range = cursor:since(start) }
end

local function add_parts(item, address)
  for _, part in ipairs(address.parts) do
    item[part[3]](item, part[1], part[2])
  end
end

local ADD = {} -- how values of each kind go into the tree; returns what the info column may show

function ADD.addr(tree, field, cursor)
  local start = cursor.at
  local address = read_address(cursor, cursor:take(1):uint(), start)
  add_parts(tree:add(field, address.range, address.text), address)
end

function ADD.addrvec(tree, field, cursor)
  local start, marker = cursor.at, cursor:take(1):uint()
  local found = {}
  if marker == 2 then
    for _ = 1, cursor:take(4):le_uint() do
      local at = cursor.at
      found[#found + 1] = read_address(cursor, cursor:take(1):uint(), at)
    end
  else
    found[1] = read_address(cursor, marker, start)
  end
  local texts = {}
  for i, address in ipairs(found) do texts[i] = address.text end
  local text = #texts == 1 and texts[1] or "[" .. table.concat(texts, ",") .. "]"
  local item = tree:add(field, cursor:since(start), text)
  for _, address in ipairs(found) do
    add_parts(item:add(F["addr"], address.range, address.text), address)
  end
end

function ADD.blob(tree, field, cursor)
  local length = cursor:take(4):le_uint()
  tree:add(field, length > 0 and cursor:take(length) or cursor:since(cursor.at))
end

function ADD.raw(tree, field, cursor, spec)
  tree:add(field, cursor:take(spec.size))
end

function ADD.u32_list(tree, field, cursor, spec)
  local start, count = cursor.at, cursor:take(4):le_uint()
  if count * 4 > cursor.size - cursor.at then error(SHORT, 0) end
  local item = tree:add(cursor.tvb:range(start, 4 + 4 * count), string.format("%s: %d", spec.name, count))
  for _ = 1, count do item:add_le(field, cursor:take(4)) end
end

for kind, scalar in pairs(SCALARS) do
  ADD[kind] = function(tree, field, cursor, spec)
    local range = cursor:take(scalar.size)
    local item = tree:add_le(field, range)
    if spec.bits then
      local names = {}
      for bit_number = 0, 8 * scalar.size - 1 do
        local name = BITS[spec.bits][bit_number]
        if name and range:range(math.floor(bit_number / 8), 1):bitfield(7 - bit_number % 8, 1) == 1 then
          names[#names + 1] = name
        end
      end
      if #names > 0 then item:append_text(" (" .. table.concat(names, ", ") .. ")") end
    end
    return scalar.size == 8 and tostring(range:le_uint64()) or tostring(range:le_uint())
  end
end

-- The fields of `specs`, one after the other; what the info column shows of them.
local function add_fields(tree, prefix, specs, cursor)
  local told = ""
  for _, spec in ipairs(specs) do
    local value = ADD[spec.kind](tree, F[prefix .. spec.name], cursor, spec)
    if spec.telling then told = told .. " " .. spec.name .. " " .. value end
  end
  return told
end

-- The same for fields that may be cut short by the end of the payload.
local function add_checked(tree, prefix, specs, tvb)
  local cursor = cursor_over(tvb)
  local ok, told = pcall(add_fields, tree, prefix, specs, cursor)
  if not ok then
    if told ~= SHORT then error(told, 0) end
    tree:add_proto_expert_info(E.malformed, "The payload ends early, or is no such frame's")
    return " [malformed]"
  end
  if cursor.at < cursor.size then tree:add(F["trailing"], cursor.tvb:range(cursor.at)) end
  return told
end
