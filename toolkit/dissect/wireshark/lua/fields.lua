local proto = Proto("msgr2", "Ceph Messenger v2")
proto.prefs.check_crc = Pref.bool("Check CRCs", true, "Compute the CRC-32C of every preamble and segment")

local PREAMBLE_SIZE, MAX_SEGMENTS = 32, 4
local LONGEST_FRAME = 0x40000000 -- what claims to be longer is no frame
local LONGEST_INFO = 300
local BAD, GOOD, UNVERIFIED = 0, 1, 2
local STATUS = { [BAD] = "Bad", [GOOD] = "Good", [UNVERIFIED] = "Unverified" }

-- ---- fields

local F = {} -- by filter name without the "msgr2."
local fields = {}

local function define(make, name, ...)
  local field = make("msgr2." .. name, ...)
  F[name] = field
  fields[#fields + 1] = field
end

local SCALARS = {
  u8 = { size = 1, make = ProtoField.uint8 },
  bool = { size = 1, make = ProtoField.bool },
  u16 = { size = 2, make = ProtoField.uint16 },
  u32 = { size = 4, make = ProtoField.uint32 },
  i32 = { size = 4, make = ProtoField.int32 },
  u64 = { size = 8, make = ProtoField.uint64 },
  i64 = { size = 8, make = ProtoField.int64 },
}

local function define_value(prefix, spec)
  local name, kind = prefix .. spec.name, spec.kind:gsub("_list$", "")
  if not SCALARS[kind] then
    define((kind == "blob" or kind == "raw") and ProtoField.bytes or ProtoField.string, name, spec.name)
  elseif kind == "bool" then
    define(ProtoField.bool, name, spec.name)
  else
    local base = spec.hex and base.HEX or base.DEC
    define(SCALARS[kind].make, name, spec.name, base, spec.values and VALUES[spec.values])
  end
end

for tag, spec in pairs(CONTROL) do
  define(ProtoField.none, spec.key, TAGS[tag])
  for _, field in ipairs(spec) do
    define_value(spec.key .. ".", field)
  end
end
define(ProtoField.none, "message", "Header")
for _, field in ipairs(MESSAGE_HEADER) do
  define_value("message.", field)
end

define(ProtoField.string, "revision", "Revision")
define(ProtoField.uint32, "length", "Length on the wire", base.DEC)
define(ProtoField.uint8, "crc.status", "CRC status", base.DEC, STATUS)
define(ProtoField.string, "banner", "Banner")
define(ProtoField.uint16, "banner.length", "Payload length", base.DEC)
define(ProtoField.uint64, "banner.features_supported", "features_supported", base.HEX)
define(ProtoField.uint64, "banner.features_required", "features_required", base.HEX)
define(ProtoField.uint8, "tag", "Tag", base.DEC, TAGS)
define(ProtoField.uint8, "segments", "Segments", base.DEC)
define(ProtoField.uint32, "segment.length", "Length", base.DEC)
define(ProtoField.uint16, "segment.alignment", "Alignment", base.DEC)
define(ProtoField.bytes, "segment", "Segment")
define(ProtoField.uint32, "segment.crc", "CRC", base.HEX)
define(ProtoField.uint8, "segment.crc.status", "CRC status", base.DEC, STATUS)
define(ProtoField.uint8, "flags", "Flags", base.HEX)
define(ProtoField.bool, "flags.compressed", "Compressed", 8, nil, 0x01)
define(ProtoField.uint8, "reserved", "Reserved", base.HEX)
define(ProtoField.uint32, "preamble.crc", "Preamble CRC", base.HEX)
define(ProtoField.uint8, "preamble.crc.status", "Preamble CRC status", base.DEC, STATUS)
define(ProtoField.uint8, "late_status", "Late status", base.HEX)
define(ProtoField.bool, "aborted", "Aborted by its sender")
define(ProtoField.string, "message.name", "Name")
define(ProtoField.uint32, "message.front_len", "Front length", base.DEC)
define(ProtoField.uint32, "message.middle_len", "Middle length", base.DEC)
define(ProtoField.uint32, "message.data_len", "Data length", base.DEC)
define(ProtoField.bytes, "message.front", "Front")
define(ProtoField.bytes, "message.middle", "Middle")
define(ProtoField.bytes, "message.data", "Data")
define(ProtoField.uint32, "addr.type", "Type", base.DEC, VALUES.address_type)
define(ProtoField.uint32, "addr.nonce", "Nonce", base.DEC)
define(ProtoField.uint16, "addr.port", "Port", base.DEC)
define(ProtoField.ipv4, "addr.ipv4", "IPv4")
define(ProtoField.ipv6, "addr.ipv6", "IPv6")
define(ProtoField.string, "addr", "Address")
define(ProtoField.bytes, "trailing", "Trailing bytes")
define(ProtoField.bytes, "encrypted", "Encrypted (export the capture decrypted first)")
define(ProtoField.bytes, "unknown", "Not a frame")
proto.fields = fields

local E = {
  bad_crc = ProtoExpert.new("msgr2.expert.bad_crc", "Bad CRC", expert.group.CHECKSUM, expert.severity.ERROR),
  malformed = ProtoExpert.new("msgr2.expert.malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR),
  unknown = ProtoExpert.new("msgr2.expert.unknown", "Not a frame", expert.group.MALFORMED, expert.severity.WARN),
  encrypted = ProtoExpert.new("msgr2.expert.encrypted", "Encrypted", expert.group.UNDECODED, expert.severity.NOTE),
  compressed = ProtoExpert.new("msgr2.expert.compressed", "Compressed", expert.group.UNDECODED, expert.severity.NOTE),
  aborted = ProtoExpert.new("msgr2.expert.aborted", "Aborted", expert.group.SEQUENCE, expert.severity.NOTE),
  order = ProtoExpert.new("msgr2.expert.order", "Seq does not follow", expert.group.SEQUENCE, expert.severity.WARN),
  reset = ProtoExpert.new("msgr2.expert.reset", "Session reset", expert.group.SEQUENCE, expert.severity.WARN),
  refused = ProtoExpert.new("msgr2.expert.refused", "Refused", expert.group.RESPONSE_CODE, expert.severity.WARN),
  resumed = ProtoExpert.new("msgr2.expert.resumed", "Session resumed", expert.group.SEQUENCE, expert.severity.NOTE),
}
proto.experts = {
  E.bad_crc, E.malformed, E.unknown, E.encrypted, E.compressed, E.aborted, E.order, E.reset, E.refused, E.resumed,
}
