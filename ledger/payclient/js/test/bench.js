/** What the tests of this module share: a clock that stands still, locks, a channel, and a server that does as it is told. */
import { PayClient } from '../src/index.js';
import { MemoryStore } from '../src/index.js';

/** idle waits until everything that can go on without time passing has. */
export async function idle() {
  for (let i = 0; i < 8; i++) await new Promise((resolve) => { setImmediate(resolve); });
}

/** FakeClock moves when it is told to; jump is of the wall clock alone, as when somebody sets it. */
export class FakeClock {
  #elapsed = 0;
  #offset = Date.parse('2026-11-30T10:00:00Z');
  #timers = new Map();
  #last = 0;

  now = () => this.#offset + this.#elapsed;

  since = () => this.#elapsed;

  setTimeout = (f, ms) => {
    this.#timers.set(++this.#last, { f, at: this.#elapsed + ms });
    return this.#last;
  };

  clearTimeout = (id) => this.#timers.delete(id);

  jump(ms) {
    this.#offset += ms;
  }

  /** pass lets time pass, and everything happen that is due by then. */
  async pass(ms) {
    const end = this.#elapsed + ms;
    await idle();
    for (;;) {
      const [id, next] = [...this.#timers].sort((a, b) => a[1].at - b[1].at)[0] ?? [];
      if (!next || next.at > end) break;
      this.#elapsed = Math.max(this.#elapsed, next.at);
      this.#timers.delete(id);
      next.f();
      await idle();
    }
    this.#elapsed = end;
    await idle();
  }
}

/** FakeLocks are Web Locks for clients in one process. */
export class FakeLocks {
  #queues = new Map();

  /** of gives the locks of one tab, which kill takes back. */
  tab() {
    const dead = new AbortController();
    return {
      hold: (name, signal, work) => this.#hold(name, AbortSignal.any ? AbortSignal.any([signal, dead.signal]) : signal, work, dead.signal),
      kill: () => dead.abort(),
    };
  }

  async #hold(name, signal, work, dead) {
    const before = this.#queues.get(name) ?? Promise.resolve();
    let free;
    const mine = new Promise((resolve) => { free = resolve; });
    this.#queues.set(name, before.then(() => mine));
    dead.addEventListener('abort', free);
    try {
      await before;
      signal.throwIfAborted();
      await work();
    } finally {
      free();
    }
  }
}

/** FakeChannels are BroadcastChannels for clients in one process. */
export class FakeChannels {
  #all = new Set();

  tab() {
    const channel = {
      listener: () => {},
      listen(listener) { channel.listener = listener; },
      post: (message) => {
        for (const other of this.#all) if (other !== channel) queueMicrotask(() => other.listener(structuredClone(message)));
      },
      close: () => this.#all.delete(channel),
    };
    this.#all.add(channel);
    return channel;
  }
}

export const response = (status, body, headers = {}) => ({
  status, body: typeof body === 'string' ? body : JSON.stringify(body), headers,
});
export const problem = (status, code, more = {}, headers = {}) =>
  response(status, { type: `urn:khata:problem:${code}`, title: code, status, code, ...more }, { 'Content-Type': 'application/problem+json', ...headers });

/**
 * FakeServer keeps books of one line: a key moves money once. Before it answers, it does what the next step of its script says: an answer
 * to give without looking (a response), or 'lose-request', 'lose-answer', 'half-answer', 'hang', or a function of the request.
 */
export class FakeServer {
  script = [];
  requests = [];
  books = new Map();
  refuse = null;

  fetch = async (url, init = {}) => {
    const request = { url: String(url), method: init.method ?? 'GET', headers: new Headers(init.headers), body: init.body, init };
    this.requests.push(request);
    const step = request.method === 'POST' || this.lookScript === undefined ? this.script.shift() : this.lookScript.shift();
    if (step === 'lose-request') throw new TypeError('network error');
    if (step === 'hang') {
      return new Promise((resolve, reject) => { init.signal.addEventListener('abort', () => reject(init.signal.reason)); });
    }
    if (step && typeof step === 'object') return toResponse(step);
    const answer = typeof step === 'function' ? await step(request) : this.answer(request);
    if (step === 'lose-answer') throw new TypeError('network error');
    if (step === 'half-answer') return toResponse({ ...answer, body: answer.body.slice(0, 40) });
    if (step === 'cut-answer') return { ...toResponse(answer), status: answer.status, headers: new Headers(answer.headers), text: async () => { throw new TypeError('cut'); } };
    return toResponse(answer);
  };

  answer(request) {
    if (request.method === 'GET') {
      const key = decodeURIComponent(request.url.split('/').pop());
      const found = this.books.get(key);
      if (!found) return problem(404, 'TRANSFER_NOT_FOUND');
      const refused = found.status !== 201;
      return response(200, { payment: JSON.parse(found.body), status: refused ? 'refused' : 'posted' }, { 'Content-Type': 'application/json' });
    }
    const key = request.headers.get('Idempotency-Key');
    const found = this.books.get(key);
    if (found) {
      if (found.asked !== request.body) return problem(422, 'IDEMPOTENCY_KEY_REUSED');
      return { ...found, headers: { ...found.headers, 'Idempotent-Replayed': 'true' } };
    }
    const id = `TXN-${String(this.books.size + 1).padStart(26, 'A')}`;
    const answer = this.refuse
      ? problem(422, this.refuse, { transfer_id: id })
      : response(201, { transfer_id: id, ...JSON.parse(request.body), posted_at: '2026-11-30T10:00:00.000000Z' }, { 'Content-Type': 'application/json' });
    this.books.set(key, { ...answer, asked: request.body });
    return answer;
  }

  get posts() {
    return this.requests.filter((r) => r.method === 'POST');
  }
}

function toResponse({ status, body, headers }) {
  if (status >= 200 && status < 600 && status !== 204) return new Response(body, { status, headers });
  return { status, headers: new Headers(headers), text: async () => body };
}

export const user = 'wallet:shimul';
export const body = '{"from":"wallet:shimul","to":"wallet:tithi","amount":"500.00","currency":"BDT","note":"coaching"}';

/** Bench is a browser with tabs, before a server. */
export class Bench {
  clock = new FakeClock();
  store = new MemoryStore();
  server = new FakeServer();
  locks = new FakeLocks();
  channels = new FakeChannels();
  token = 'sandbox-shimul';
  online = true;
  #tabs = [];

  /** tab opens a tab; the options are of its client. */
  tab(options = {}) {
    const locks = this.locks.tab();
    const channel = this.channels.tab();
    let alive = true;
    const fetch = (...args) => this.server.fetch(...args);
    const dead = () => new Promise(() => {});
    // A tab that was killed does nothing any more, whatever it waits for.
    const store = new Proxy(this.store, {
      get: (target, name) => (typeof target[name] !== 'function' ? target[name] : async (...args) => {
        if (!alive) return dead();
        const given = await target[name](...args);
        return alive ? given : dead();
      }),
    });
    const client = new PayClient({
      store, fetch: async (...args) => { const given = await fetch(...args); return alive ? given : dead(); }, token: () => this.token, random: () => 1,
      clock: this.clock, locks, channel, online: () => this.online, ...options,
    });
    client.kill = () => {
      alive = false;
      locks.kill();
      channel.close();
    };
    this.#tabs.push(client);
    return client;
  }

  async pay(client, what = {}) {
    await client.start(user);
    const { key } = await client.draft(user);
    await client.pay({ key, user, body, ...what });
    await idle();
    return key;
  }

  close() {
    for (const tab of this.#tabs) tab.close();
  }
}
