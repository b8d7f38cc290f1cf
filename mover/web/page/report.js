// How a task ended: what it did, how that was checked, and what failed.
import {h, keyed, say, show} from './dom.js'
import {cells, section, table} from './parts.js'
import {ending, name, sentence, word} from './text.js'
import {bytes, count, duration, nanoseconds, plural} from './units.js'

const step = 100 // failures that are shown, and that each click adds

const rows = [ // of the report, with the field of the plan
  ['Files moved', 'files', 'files'], ['Bytes moved', 'bytes', 'bytes', bytes], ['Links and special files', 'others', 'others'], ['Updated', 'updated', 'updates'],
  ['Removed', 'removed', 'removes'], ['There already', 'kept', 'kept'], ['Failed', 'failed', ''],
]

// Report is the part of an open task that says how it ended.
export class Report {
  #shown = step
  #of = ''

  constructor() {
    const done = table(['', 'Done', 'Planned'], 'figures')
    const failed = table(['Name', 'Step', 'Error'], 'failures')
    this.line = h('p')
    this.notes = h('ul')
    this.more = h('button', {type: 'button', onclick: () => { this.#shown += step; this.tell(this.message) }})
    this.done = section('Report', this.line, done.node, this.notes)
    this.failures = section('First errors', failed.node, this.more)
    this.tables = {done, failed}
  }

  tell(m) {
    if (this.#of !== m.id) this.#shown = step
    this.#of = m.id
    this.message = m
    const r = m.report
    show(this.done, r)
    this.#tellFailures(r?.failures ?? [], Number(r?.failed ?? 0))
    if (!r) return
    const {done} = this.tables
    const counted = rows.filter(([, field, plan]) => r[field] || r.planned?.[plan])
    keyed(done.body, counted, ([title]) => title, done.line, (line, [title, field, plan, print = count]) =>
      cells(line, [title, print(r[field] ?? 0), plan ? print(r.planned?.[plan] ?? 0) : '']))
    const levels = (r.levels ?? []).map((l) => `${plural(l.files ?? 0, 'file', 'files')} ${ending(l.level, 'LEVEL_')}`)
    say(this.line, [`in ${duration(nanoseconds(r.elapsed))}`, levels.length ? 'checked: ' + levels.join(', ') : '', m.exitCode ? `exit code ${m.exitCode}` : ''].filter(Boolean).join(' · '))
    keyed(this.notes, r.notes ?? [], (n) => n, (n) => h('li', {}, sentence(n)))
  }

  #tellFailures(failures, failed) {
    show(this.failures, failures.length)
    const {failed: list} = this.tables
    keyed(list.body, failures.slice(0, this.#shown).map((f, i) => [i, f]), ([i]) => i, list.line, (line, [, f]) =>
      cells(line, [name(f.name), [f.op, f.kind].filter(Boolean).map(word).join(' '), [sentence(f.errorKind), sentence(f.error)].filter(Boolean).join(': ')]))
    const rest = failures.length - this.#shown
    show(this.more, rest > 0)
    if (rest > 0) say(this.more, `Show ${Math.min(step, rest)} more of ${count(failed)}`)
  }
}
