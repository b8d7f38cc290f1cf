// How far a task is, in figures.
import {now} from './api.js'
import {h, put, say, show} from './dom.js'
import {bar, field, tellBar} from './parts.js'
import {percent, remaining} from './task.js'
import {age, bytes, count, duration, perSecond} from './units.js'

const titles = {bytes: 'Bytes', files: 'Files', rate: 'Rate', left: 'ETA', elapsed: 'Elapsed', flight: 'In flight', failed: 'Failed'}

// HowFar is a bar and the figures below it.
export class HowFar {
  constructor() {
    this.bar = bar('done')
    this.percent = h('b', {id: 'task-percent'})
    this.fields = Object.fromEntries(Object.entries(titles).map(([name, title]) => [name, field(title, 'task-' + name)]))
    this.fields.failed.classList.add('bad')
    this.nodes = [h('div', {class: 'how-far'}, this.bar, this.percent), h('div', {class: 'fields'}, ...Object.values(this.fields))]
  }

  tell(t, message) {
    const share = percent(t)
    tellBar(this.bar, (share ?? 0) / 100)
    put(this.bar, 'data-state', t.state)
    say(this.percent, share === undefined ? '' : share + '%')
    const texts = {...amounts(t), ...rates(t), left: remaining(t), elapsed: elapsed(t), failed: t.failed ? count(t.failed) : '',
      flight: t.state === 'running' ? count(message.progress?.inFlight ?? 0) : ''}
    for (const [name, node] of Object.entries(this.fields)) {
      say(node.lastChild, texts[name] ?? '')
      show(node, texts[name])
    }
  }
}

function elapsed(t) {
  if (!t.started) return ''
  return t.ended ? duration(Math.max(0, t.ended - t.started) * 1e6) : age(t.started, now())
}

// amounts says how much is done and planned, as the command line does: with a plus
// while the plan is still growing.
export function amounts(t) {
  if (!t.files && !t.bytes && !t.filesDone && !t.bytesDone) return {}
  const more = t.whole || t.state !== 'running' ? '' : '+'
  const of = (done, planned, print) => planned ? `${print(done)}/${print(planned)}${more}` : print(done)
  return {bytes: of(t.bytesDone, t.bytes, bytes), files: of(t.filesDone, t.files, count)}
}

// rates says how fast it goes.
function rates(t) {
  if (t.state !== 'running') return {}
  return {rate: perSecond(t.rate) + (t.filesRate >= 10 ? ` · ${count(Math.round(t.filesRate))} files/s` : '')}
}
