// Numbers as the command line prints them: the rules of the Go package units, letter
// for letter. Whole numbers may be strings or BigInt, as JSON has those of 64 bits.

const binary = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB']

// bytes prints three digits: "0 B", "1023 B", "4.00 KiB", "12.3 MiB", "512 GiB".
export function bytes(n) {
  let value = Number(n)
  if (value < 0) return '-' + bytes(-value)
  if (value < 1024) return Math.trunc(value) + ' B'
  let unit = 0
  for (; value >= 999.5 && unit < binary.length - 1; unit++) value /= 1024
  return `${fixed(value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0)} ${binary[unit]}`
}

// fixed rounds a tie to the even digit, as Go does; toFixed goes up. Doubles have a
// tie only where x times a power of two is odd.
function fixed(x, digits) {
  const halves = x * 2 ** (digits + 1)
  if (halves % 2 !== 1) return x.toFixed(digits)
  const low = Math.floor(x * 10 ** digits)
  return ((low + low % 2) / 10 ** digits).toFixed(digits)
}

// perSecond prints a rate in bytes per second.
export function perSecond(rate) {
  return bytes(Math.trunc(Math.min(Math.max(Number(rate) || 0, 0), 2 ** 62))) + '/s'
}

// count prints a separator for every thousand: "1,203,456".
export function count(n) {
  return String(n).replace(/\B(?=(\d{3})+$)/g, ',')
}

// plural prints a count with its noun: "1 file", "1,203 files".
export function plural(n, one, many) {
  return String(n) === '1' ? '1 ' + one : `${count(n)} ${many}`
}

export const second = 1e9 // durations are in nanoseconds
const minute = 60 * second
const hour = 60 * minute
const day = 24 * hour

// nanoseconds reads a duration as JSON has it: "12.5s".
export function nanoseconds(text) {
  const [, sign, whole, part] = /^(-?)(\d+)(?:\.(\d+))?s$/.exec(text ?? '') ?? ['', '', '0']
  const n = Number(whole) * second + Number((part ?? '').padEnd(9, '0'))
  return sign ? -n : n
}

const round = (d, unit) => Math.round(d / unit) * unit
const two = (n) => String(n).padStart(2, '0')

// duration prints two units at most: "0.42s", "12.0s", "3m04s", "2h05m", "3d04h".
export function duration(d) {
  if (d < 0) return '-' + duration(-d)
  const seconds = Math.floor(d / second) + (d % second) / second
  if (d < 10 * second - 5e6) return fixed(seconds, 2) + 's'
  if (d < 59 * second + 950e6) return fixed(seconds, 1) + 's'
  d = round(d, second)
  if (d < hour) return `${Math.floor(d / minute)}m${two(d % minute / second)}s`
  d = round(d, minute)
  if (d < day) return `${Math.floor(d / hour)}h${two(d % hour / minute)}m`
  d = round(d, hour)
  return `${Math.floor(d / day)}d${two(d % day / hour)}h`
}

// clock prints a countdown: "0:07", "12:30", "1:02:03".
export function clock(d) {
  const s = Math.round(Math.max(d, 0) / second)
  if (s < 3600) return `${Math.floor(s / 60)}:${two(s % 60)}`
  return `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`
}

// age prints how long ago a moment was, both in milliseconds: as duration does, in
// whole seconds.
export function age(then, now) {
  const d = Math.floor(Math.max(0, now - then) / 1000) * second
  return d < minute ? d / second + 's' : duration(d)
}

// moment prints a time of the clock of whoever looks: "2026-11-21 22:47:03".
export function moment(ms) {
  const t = new Date(ms)
  return `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())} ${timeOfDay(ms)}`
}

// timeOfDay prints "22:47:03".
export function timeOfDay(ms) {
  const t = new Date(ms)
  return `${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}`
}
