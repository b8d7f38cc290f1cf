// The JSON side of the API, asked from where the page came from.

const patience = 10_000 // milliseconds for one answer

// Away says that no answer came from a service: it is the way there that failed.
export class Away extends Error {}

// Refused is an answer of the service that is no success.
export class Refused extends Error {
  constructor(status, body, after) {
    super(body?.message || `HTTP ${status}`)
    this.status = status
    this.kind = body?.kind ?? 'OTHER'
    this.after = Number(after) || 0 // seconds until it may be asked again
  }
}

// skew is what the clock of the service is ahead of ours, in milliseconds. It is told
// in whole seconds, so a small one is none.
let skew = 0
export const now = () => Date.now() + skew

function learnSkew(date) {
  const ahead = Date.parse(date) + 500 - Date.now()
  if (Number.isFinite(ahead)) skew = Math.abs(ahead) < 2000 ? 0 : ahead
}

async function ask(path, options) {
  let answer, body
  try {
    answer = await fetch(path, {...options, cache: 'no-store', redirect: 'error', signal: AbortSignal.timeout(patience)})
    body = await answer.json()
  } catch (e) {
    throw new Away(e.name === 'TimeoutError' ? 'no answer' : e instanceof SyntaxError ? 'the answer is not ours' : 'no connection')
  }
  if (answer.status >= 502 && answer.status <= 504) throw new Away(body.message ?? 'no answer')
  if (!answer.ok) throw new Refused(answer.status, body, answer.headers.get('Retry-After'))
  learnSkew(answer.headers.get('Date'))
  return body
}

// get asks for an answer to a method without effect.
export function get(path, query) {
  const q = new URLSearchParams(query).toString()
  return ask('/v1' + path + (q && '?' + q), {headers: {Accept: 'application/json'}})
}

// post asks for a deed.
export function post(path, body) {
  return ask('/v1' + path, {method: 'POST', body: body && JSON.stringify(body), headers: {Accept: 'application/json', 'Content-Type': 'application/json'}})
}

// all asks for the pages of a list, until there are most.
export async function all(path, field, query, most) {
  const items = []
  for (let token = ''; ;) {
    const answer = await get(path, {...query, pageSize: 1000, ...token && {pageToken: token}})
    items.push(...answer[field] ?? [])
    if (!answer.nextPageToken || answer.nextPageToken === token || items.length >= most) {
      return {items, whole: !answer.nextPageToken}
    }
    token = answer.nextPageToken
  }
}

// watch follows a task until it has ended, or close is called. heard gets the task;
// over is called when there is nothing more to hear, for whatever reason.
export function watch(id, heard, over) {
  const stream = new EventSource(`/v1/tasks/${id}:watch`)
  const close = () => { stream.close() }
  const end = () => { close(); over() } // else it would connect again, and again
  stream.onerror = end
  stream.onmessage = (event) => {
    const {result, error} = JSON.parse(event.data)
    if (error) return end()
    heard(result)
  }
  return close
}
