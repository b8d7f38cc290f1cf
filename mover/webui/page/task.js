// What a task is on the page: the fields of one row, and what follows from them. A
// row is small, because there are many; the whole message is kept for an open task
// only.
import {clock, nanoseconds} from './units.js'
import {ending, word} from './text.js'

// The states, in the order of filters.
export const states = ['running', 'queued', 'paused', 'failed', 'done', 'cancelled']

export const hasEnded = (state) => state === 'done' || state === 'failed' || state === 'cancelled'

// The kinds whose command has another name.
const commands = {describe: 'dataset add', remove: 'rm'}

// may says what can be asked of a task: what leads to a state that may follow.
export const may = {
  pause: (t) => t.state === 'queued' || t.state === 'running' && t.phase !== 'pausing' && t.phase !== 'cancelling',
  resume: (t) => t.state === 'paused',
  cancel: (t) => !hasEnded(t.state) && t.phase !== 'cancelling',
}

const sum = (a, b) => b === undefined ? Number(a ?? 0) : Number(BigInt(a ?? 0) + BigInt(b))
const time = (t) => t ? Date.parse(t) : 0

// row makes a row of a message, with every field, so that all have one shape.
export function row(m) {
  const spec = m.spec ?? {}
  const p = m.progress ?? {}
  const planned = p.planned ?? {}
  return {
    id: m.id,
    revision: Number(m.revision ?? 0),
    state: shared(ending(m.state, 'TASK_STATE_')),
    phase: shared(m.phase ?? ''),
    kind: command(ending(spec.kind, 'TASK_KIND_')),
    class: shared(ending(spec.class, 'TASK_CLASS_')),
    source: spec.kind === 'TASK_KIND_RELEASE' ? '' : spec.source || (spec.sources ?? []).join(' '), // a release names the copy that stays
    target: spec.target || spec.staging?.tier || spec.staging?.dataset || '',
    dataset: m.dataset ?? '',
    owner: shared(m.owner?.name || (m.owner ? 'uid ' + (m.owner.uid ?? 0) : '')),
    project: shared(spec.project ?? ''),
    agent: shared(m.agent ?? ''),
    files: sum(planned.files, planned.compares), // what is planned, as the command line counts it
    bytes: sum(planned.bytes, planned.compareBytes),
    whole: p.planComplete ?? false,
    filesDone: Number(p.filesDone ?? 0),
    bytesDone: Number(p.bytesDone ?? 0),
    failed: Number(p.failed ?? 0),
    error: m.error ?? '',
    rate: m.state === 'TASK_STATE_RUNNING' ? Number(p.bytesPerSecond ?? 0) : 0,
    filesRate: Number(p.filesPerSecond ?? 0),
    left: nanoseconds(p.remaining), // 0 is not known
    created: time(m.createTime),
    started: time(m.startTime),
    ended: time(m.endTime),
    heard: 0, // when we heard of it, by the clock of performance
  }
}

const command = (kind) => shared(commands[kind] ?? kind)

// shared makes equal words one string: there are few projects and many tasks.
const words = new Map()
function shared(s) {
  const known = words.get(s)
  if (known !== undefined) return known
  if (words.size < 10_000) words.set(s, s)
  return s
}

// what says what a task is about, source and target.
export function what(t) {
  return [word(t.source || t.dataset), word(t.source || t.dataset ? t.target : '')].filter(Boolean)
}

// percent is how much is done, in whole percent as the command line counts it;
// undefined where that is not known.
export function percent(t) {
  if (t.state === 'done') return 100
  if (!t.whole) return undefined
  if (t.bytes > 0) return Math.floor(Math.min(t.bytesDone, t.bytes) * 100 / t.bytes)
  return t.files > 0 ? Math.floor(Math.min(t.filesDone, t.files) * 100 / t.files) : undefined
}

const moving = new Set(['', 'moving'])

// remaining is the time that is left in words, as its worker told it.
export function remaining(t) {
  if (t.state !== 'running') return ''
  if (t.phase === 'paused' || t.phase === 'waiting') return 'waiting'
  if (!moving.has(t.phase)) return word(t.phase) + '…'
  if (!t.whole) return 'scanning…'
  if (t.bytesDone >= t.bytes && t.filesDone < t.files) return 'finishing…'
  return t.left ? clock(t.left) : '–'
}
