// The page: one feed, a view for each route, and the keys that all of them have.
import {Agents} from './agents.js'
import {Datasets} from './datasets.js'
import {Detail} from './detail.js'
import {h, put} from './dom.js'
import {Feed} from './feed.js'
import {Overview} from './overview.js'
import {Tasks} from './tasks.js'
import {Tiers} from './tiers.js'
import {Tonight} from './tonight.js'
import {Usage} from './usage.js'

const feed = new Feed()
const overview = new Overview(feed)
const main = document.querySelector('#main')

// A route is #/view/id?query.
function route() {
  const [path, query = ''] = location.hash.slice(2).split('?')
  const [view, id = ''] = path.split('/')
  if (!Object.hasOwn(views, view)) return {view: 'tasks', id: '', query: new URLSearchParams()}
  return {view, id: /^[0-9A-Za-z]{1,64}$/.test(id) ? id : '', query: new URLSearchParams(query)}
}

function go({view, id, query}) {
  const hash = `#/${view}${id && '/' + id}${query.size ? '?' + query : ''}`
  if (hash !== location.hash) history.pushState(null, '', hash)
  show()
}

// asked replaces the choice of the view that is shown.
const asked = (query) => {
  const {view, id} = route()
  history.replaceState(null, '', `#/${view}${id && '/' + id}${query.size ? '?' + query : ''}`)
  show()
}

const tasks = new Tasks(feed, {asked, open: (t) => go({...route(), id: t.id})})
const detail = new Detail(feed, () => close())
const split = h('div', {class: 'split'}, tasks.node, detail.node)
const views = { // each has a node, and shows in it what a query chooses
  tasks: {node: split, choose: (query) => tasks.choose(query)},
  agents: new Agents(feed, {asked}),
  tiers: new Tiers(feed),
  datasets: new Datasets(feed, {asked}),
  usage: new Usage(feed, {asked}),
  tonight: new Tonight(feed),
}

function close() {
  go({...route(), id: ''})
  tasks.grid.focus()
}

function show() {
  const {view, id, query} = route()
  if (main.firstChild !== views[view].node) main.replaceChildren(views[view].node)
  for (const link of document.querySelectorAll('nav a')) put(link, 'aria-current', link.hash === '#/' + view ? 'page' : null)
  split.classList.toggle('opened', view === 'tasks' && id !== '')
  detail.open(view === 'tasks' ? id : '')
  views[view].choose(query)
  if (view === 'tasks') tasks.rows.activate(id || null)
  feed.look()
}

addEventListener('hashchange', show)
addEventListener('popstate', show)
addEventListener('keydown', (event) => {
  const typing = event.target.matches('input, select, dialog, dialog *')
  if (event.key === '/' && !typing) {
    const search = main.querySelector('input[type=search]')
    search?.focus()
    if (search) event.preventDefault()
  } else if (event.key === 'Escape' && event.target.matches('input')) {
    event.target.blur()
  } else if (event.key === 'Escape' && !typing && route().id) {
    close()
  }
})

feed.addEventListener('change', () => { overview.tell(); tasks.change() })
setInterval(() => { // what changes with the clock
  overview.tick()
  if (tasks.node.isConnected) tasks.rows.draw()
  detail.change()
}, 1000)
show()
overview.tell()
feed.start()
