-- ---- CRC-32C, four bytes at a time (docs/protocol.md §1.4: the seed is the running register, nothing is inverted)

local band, bxor, rshift, tobit = bit.band, bit.bxor, bit.rshift, bit.tobit
local byte = string.byte
local T0, T1, T2, T3 = {}, {}, {}, {}
for i = 0, 255 do
  local crc = i
  for _ = 1, 8 do
    crc = bxor(rshift(crc, 1), band(crc, 1) * 0x82F63B78)
  end
  T0[i] = crc
end
for i = 0, 255 do
  T1[i] = bxor(rshift(T0[i], 8), T0[band(T0[i], 255)])
  T2[i] = bxor(rshift(T1[i], 8), T0[band(T1[i], 255)])
  T3[i] = bxor(rshift(T2[i], 8), T0[band(T2[i], 255)])
end

local function crc32c(data, seed)
  local crc, size, at = tobit(seed), #data, 1
  while at + 3 <= size do
    local a, b, c, d = byte(data, at, at + 3)
    crc = bxor(crc, a + b * 0x100 + c * 0x10000 + d * 0x1000000)
    crc = bxor(
      T3[band(crc, 255)], T2[band(rshift(crc, 8), 255)], T1[band(rshift(crc, 16), 255)], T0[rshift(crc, 24)]
    )
    at = at + 4
  end
  for i = at, size do
    crc = bxor(rshift(crc, 8), T0[band(bxor(crc, byte(data, i)), 255)])
  end
  return crc
end

local function u32_in(raw, at) -- of a Lua string, `at` counted from 0
  local a, b, c, d = byte(raw, at + 1, at + 4)
  return a + b * 0x100 + c * 0x10000 + d * 0x1000000
end
