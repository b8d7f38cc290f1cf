// Text from outside: names that need not be UTF-8, sentences that may hold anything.
// What comes out of here can be shown as text and does nothing to what stands around it.

const plain = /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]*$/u
const isPlain = (c) => c.length === 1 && c >= ' ' && c <= '~' || plain.test(c)
const escapes = {'\x07': '\\a', '\b': '\\b', '\f': '\\f', '\n': '\\n', '\r': '\\r', '\t': '\\t', '\v': '\\v'}
const hex = (n, digits) => n.toString(16).padStart(digits, '0')

// escape is a character that can not be printed, as Go writes it.
function escape(c) {
  const n = c.codePointAt(0)
  if (escapes[c]) return escapes[c]
  if (n < 0x20 || n === 0x7f) return '\\x' + hex(n, 2)
  return n < 0x10000 ? '\\u' + hex(n, 4) : '\\U' + hex(n, 8)
}

// sentence is a text for people, with what can not be printed escaped: control
// characters, and those that change the direction of what follows.
export function sentence(s) {
  s ??= ''
  return plain.test(s) ? s : Array.from(s, (c) => isPlain(c) ? c : escape(c)).join('')
}

// word is a name or a location: as it is where it can be printed, and else in quotes,
// as mover.Printable has it. It takes a string, or the bytes of one.
export function word(s) {
  const characters = typeof s === 'string' ? Array.from(s) : decode(s)
  let changed = false
  const out = characters.map((c) => {
    if (c === '"' || c === '\\') c = '\\' + c
    else if (typeof c === 'number') c = '\\x' + hex(c, 2)
    else if (!isPlain(c)) c = escape(c)
    else return c
    changed = true
    return c
  }).join('')
  return changed ? `"${out}"` : out
}

// name is a name as JSON has one that need not be UTF-8: bytes in base64.
export function name(base64) {
  return word(Uint8Array.from(atob(base64 ?? ''), (c) => c.charCodeAt(0)))
}

const utf8 = new TextDecoder('utf-8', {fatal: true, ignoreBOM: true})
const text = (bytes) => { try { return utf8.decode(bytes) } catch { return undefined } }

// decode returns characters, and numbers for bytes that are part of none.
function decode(bytes) {
  const whole = text(bytes)
  if (whole !== undefined) return Array.from(whole)
  const out = []
  for (let i = 0; i < bytes.length;) {
    const size = bytes[i] < 0x80 ? 1 : bytes[i] < 0xe0 ? 2 : bytes[i] < 0xf0 ? 3 : 4
    const c = i + size <= bytes.length ? text(bytes.subarray(i, i + size)) : undefined
    out.push(c ?? bytes[i])
    i += c === undefined ? 1 : size
  }
  return out
}

// short is the beginning of a digest.
export const short = (digest) => word((digest ?? '').slice(0, 12))

// ending is what stands last in the name of a constant: "TASK_STATE_DONE" is "done".
export function ending(constant, before) {
  return sentence((constant ?? '').replace(before, '')).toLowerCase().replaceAll('_', ' ')
}
