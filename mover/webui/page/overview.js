// The overview: what service this is, and how it does as a whole.
import {now} from './api.js'
import {Chart} from './chart.js'
import {h, put, say, show} from './dom.js'
import {field} from './parts.js'
import {sentence, word} from './text.js'
import {age, count, perSecond, plural, timeOfDay} from './units.js'

// Overview fills the parts of the page that all views share.
export class Overview {
  constructor(feed) {
    this.feed = feed
    this.chart = new Chart('Rate of all running tasks')
    const total = [h('span', {class: 'name'}, 'Moving now'), h('strong', {id: 'rate'}, '–'), h('span', {class: 'dim', id: 'rate-of'})]
    const fields = [['Running', 'running'], ['Queued', 'queued'], ['Agents', 'agents'], ['Up for', 'uptime']]
    document.querySelector('#overview').append(h('div', {class: 'total'}, ...total), this.chart.node,
      h('div', {class: 'fields'}, ...fields.map(([name, id]) => field(name, id))))
    this.at = (id) => document.getElementById(id)
  }

  // tell writes what the feed knows.
  tell() {
    const {info, lists} = this.feed
    const known = Boolean(info.version)
    say(this.at('service'), known ? `${sentence(info.node ?? '')} · ${sentence(info.version)} · term ${info.term ?? 0}` : '')
    say(this.at('rate'), known ? perSecond(this.feed.rate) : '–')
    const standing = Number(info.tasksStanding ?? 0)
    const tasks = Number(info.tasksRunning ?? 0) - standing
    if (known) document.title = `${tasks} running · datamove ${sentence(info.node ?? '')}`
    say(this.at('rate-of'), known ? `in ${plural(tasks, 'running task', 'running tasks')}` : '')
    say(this.at('running'), known ? count(tasks) + (standing ? ` · ${count(standing)} standing` : '') : '–')
    say(this.at('queued'), known ? count(info.tasksQueued ?? 0) : '–')
    const agents = lists.agents?.items ?? []
    const lost = agents.filter((a) => a.state === 'AGENT_STATE_LOST').length
    say(this.at('agents'), known ? count(info.agents ?? 0) + (lost ? ` · ${count(lost)} lost` : '') : '–')
    this.at('agents').classList.toggle('bad', lost > 0)
    this.chart.draw(this.feed.rates.all, Date.now())
    this.tick()
  }

  // tick writes what changes with the clock.
  tick() {
    const {info, away, heard, why, refusals, readOnly} = this.feed
    if (info.startTime) say(this.at('uptime'), away ? '–' : age(Date.parse(info.startTime), now()))
    const old = heard ? `What you see is ${age(heard, Date.now())} old, from ${timeOfDay(heard)}.` : 'Nothing is known yet.'
    const banner = this.at('banner')
    if (away) say(banner, `The service does not answer (${sentence(why)}). ${old} Trying again …`)
    else if (refusals.get('everything')) say(banner, sentence(refusals.get('everything')))
    else if (info.full) say(banner, `The service takes no new work: ${sentence(info.full)}`)
    show(banner, away || refusals.get('everything') || info.full)
    document.body.classList.toggle('away', Boolean(away))
    const link = this.at('link')
    const who = info.caller ? word(info.caller.name || 'uid ' + (info.caller.uid ?? 0)) : ''
    const may = readOnly ? ['reads only'] : (info.roles ?? []).map(word)
    say(link, away ? 'away' : heard ? ['live', who, ...may].filter(Boolean).join(' · ') : 'connecting …')
    put(link, 'data-state', away ? 'away' : heard ? 'live' : 'connecting')
  }
}
