import test from 'node:test';
import assert from 'node:assert/strict';
import { KeyTaken, NotAllowed, State, MemoryStore, leaseLocks } from '../src/index.js';
import { Bench, FakeClock, body, idle, problem, response, user } from './bench.js';

const hour = 60 * 60_000;
const away = problem(503, 'UNAVAILABLE', {}, { 'Retry-After': '900' });

/** bench makes one that is closed when the test ends. */
function bench(t) {
  const b = new Bench();
  t.after(() => b.close());
  return b;
}

/** once holds what must be true of every payment here: one key and the same bytes in each try, and the money moved at most once. */
function once(b, key) {
  for (const r of b.server.posts) {
    assert.equal(r.headers.get('Idempotency-Key'), key);
    assert.equal(r.body, body);
  }
  assert.ok(b.server.books.size <= 1);
}

test('a payment is on disk before its first byte leaves', async (t) => {
  const b = bench(t);
  const seen = [];
  b.server.script = [async (r) => {
    const [p] = await b.store.list(user);
    seen.push({ ...p });
    return b.server.answer(r);
  }];
  const key = await b.pay(b.tab());
  assert.equal(seen[0].key, key);
  assert.equal(seen[0].body, body);
  assert.equal(seen[0].state, State.IN_FLIGHT);
  assert.equal(seen[0].attempts, 1);
  assert.equal((await b.store.get(key)).state, State.DONE);
});

test('a payment that cannot be kept is not sent', async (t) => {
  const b = bench(t);
  const tab = b.tab();
  await tab.start(user);
  b.store.begin = async () => { throw new Error('the disk is full'); };
  await assert.rejects(tab.pay({ key: 'k'.repeat(16), user, body }), /full/);
  await idle();
  assert.equal(b.server.requests.length, 0);
});

test('a try that cannot be written down is not sent either', async (t) => {
  const b = bench(t);
  const tab = b.tab();
  const change = b.store.change.bind(b.store);
  b.store.change = async () => { throw new Error('the disk is full'); };
  const said = [];
  tab.subscribe((key, err) => { if (err) said.push(err.message); });
  const key = await b.pay(tab);
  assert.equal(b.server.requests.length, 0);
  assert.deepEqual(said, ['the disk is full']);
  b.store.change = change;
  await b.clock.pass(5_000);
  assert.equal((await b.store.get(key)).state, State.DONE);
});

test('the token is in no record', async (t) => {
  const b = bench(t);
  b.server.script = ['lose-answer', problem(503, 'UNAVAILABLE')];
  const key = await b.pay(b.tab());
  await b.clock.pass(2_000);
  assert.equal(b.server.posts[0].headers.get('Authorization'), 'Bearer sandbox-shimul');
  assert.ok(!JSON.stringify(await b.store.get(key)).includes('sandbox'));
});

// Each row: what the first try is answered, and what has become of the payment before another is made.
const html = (status) => response(status, '<html>502 Bad Gateway</html>', { 'Content-Type': 'text/html' });
const rows = {
  'broken connection': ['lose-request', State.IN_FLIGHT, null],
  'lost answer': ['lose-answer', State.IN_FLIGHT, null],
  'half an answer': ['half-answer', State.IN_FLIGHT, null],
  'cut answer': ['cut-answer', State.IN_FLIGHT, null],
  '201 of HTML': [html(201), State.IN_FLIGHT, null],
  '201 without a number': [response(201, {}, { 'Content-Type': 'application/json' }), State.IN_FLIGHT, null],
  '201 that does not say it is JSON': [response(201, { transfer_id: 'TXN-1' }), State.IN_FLIGHT, null],
  '200': [response(200, { transfer_id: 'TXN-1' }, { 'Content-Type': 'application/json' }), State.IN_FLIGHT, null],
  'redirect': [{ status: 302, body: '', headers: { Location: 'https://portal.example' } }, State.IN_FLIGHT, null],
  'opaque redirect': [{ status: 0, body: '', headers: {} }, State.IN_FLIGHT, null],
  '400': [problem(400, 'INVALID_ARGUMENT'), State.REJECTED, null],
  '400 of HTML': [html(400), State.IN_FLIGHT, null],
  '401': [problem(401, 'UNAUTHENTICATED'), State.IN_FLIGHT, 'sign-in'],
  '401 of another server': [response(401, ''), State.IN_FLIGHT, null],
  '422 that says it is a 400': [problem(422, 'X', { status: 400, transfer_id: 'TXN-1' }), State.IN_FLIGHT, null],
  '403': [problem(403, 'PERMISSION_DENIED'), State.IN_FLIGHT, 'sign-in'],
  '403 of HTML': [html(403), State.IN_FLIGHT, null],
  '404': [problem(404, 'NOT_FOUND'), State.REJECTED, null],
  '404 of HTML': [html(404), State.IN_FLIGHT, null],
  '408': [response(408, ''), State.IN_FLIGHT, null],
  '409': [problem(409, 'IDEMPOTENCY_IN_PROGRESS'), State.IN_FLIGHT, null],
  '409 without a body': [response(409, ''), State.IN_FLIGHT, null],
  '413': [problem(413, 'REQUEST_TOO_LARGE'), State.REJECTED, null],
  '415': [problem(415, 'UNSUPPORTED_MEDIA_TYPE'), State.REJECTED, null],
  '422 on record': [problem(422, 'INSUFFICIENT_FUNDS', { transfer_id: 'TXN-1' }), State.REJECTED, null],
  '422 of a code that is not known, on record': [problem(422, 'NEW', { transfer_id: 'TXN-1' }), State.REJECTED, null],
  '422': [problem(422, 'ACCOUNT_NOT_FOUND'), State.REJECTED, null],
  '422 of HTML': [html(422), State.IN_FLIGHT, null],
  '425': [response(425, ''), State.IN_FLIGHT, null],
  '429': [problem(429, 'RATE_LIMITED'), State.IN_FLIGHT, null],
  '500': [problem(500, 'INTERNAL'), State.IN_FLIGHT, null],
  '502 of HTML': [html(502), State.IN_FLIGHT, null],
  '503': [problem(503, 'UNAVAILABLE'), State.IN_FLIGHT, null],
  '503 without a body': [response(503, ''), State.IN_FLIGHT, null],
  '504 of HTML': [html(504), State.IN_FLIGHT, null],
  '599': [response(599, ''), State.IN_FLIGHT, null],
};
for (const [name, [step, state, hold]] of Object.entries(rows)) {
  test(`answered with ${name}`, async (t) => {
    const b = bench(t);
    b.server.script = [step];
    const key = await b.pay(b.tab());
    let p = await b.store.get(key);
    assert.equal(p.state, state);
    assert.equal(p.hold, hold);
    assert.equal(b.server.posts.length, 1);
    await b.clock.pass(hour);
    p = await b.store.get(key);
    if (hold || state === State.REJECTED) {
      assert.equal(b.server.posts.length, 1, 'it is not sent again by itself');
    } else {
      assert.equal(p.state, State.DONE);
      assert.equal(b.server.books.size, 1);
    }
    once(b, key);
  });
}

// After a try without an answer no later answer decides, but 201 and 422 on record.
for (const [name, [step, state, hold]] of Object.entries(rows)) {
  test(`answered with ${name} after a lost answer`, async (t) => {
    const b = bench(t);
    b.server.script = ['lose-answer', step];
    b.server.lookScript = [];
    const key = await b.pay(b.tab());
    await b.clock.pass(500);
    let p = await b.store.get(key);
    assert.equal(b.server.posts.length, 2);
    if (state === State.REJECTED && p.problem?.transfer_id) return assert.equal(p.state, State.REJECTED);
    // What is refused without a word on the first try is looked up by its key.
    assert.equal(p.state, state === State.REJECTED ? State.DONE : State.IN_FLIGHT);
    assert.equal(p.hold, hold);
    await b.clock.pass(hour);
    if (hold === 'sign-in') {
      assert.equal((await b.store.get(key)).state, State.IN_FLIGHT);
      await b.tab().start(user);
      await b.tab().resume(key);
      const tab = b.tab();
      await tab.start(user);
      await b.clock.pass(hour);
    }
    p = await b.store.get(key);
    assert.equal(p.state, State.DONE);
    once(b, key);
    assert.equal(b.server.books.size, 1);
  });
}

test('a timeout is no answer', async (t) => {
  const b = bench(t);
  b.server.script = ['hang'];
  const key = await b.pay(b.tab({ timeout: 50_000 }));
  await b.clock.pass(49_999);
  assert.equal(b.server.posts.length, 1);
  assert.ok((await b.store.get(key)).flying);
  await b.clock.pass(10_000);
  assert.equal((await b.store.get(key)).state, State.DONE);
  once(b, key);
});

test('tries come at 0.5, 1, 2, 4 s and so on, at most a minute apart, and after ten minutes 15', async (t) => {
  const b = bench(t);
  b.server.script = Array(17).fill('lose-request');
  const times = [];
  const { fetch } = b.server;
  b.server.fetch = (...args) => { times.push(b.clock.now()); return fetch(...args); };
  await b.pay(b.tab());
  await b.clock.pass(hour);
  const gaps = times.slice(1).map((at, i) => at - times[i]);
  assert.deepEqual(gaps, [500, 1000, 2000, 4000, 8000, 16000, 32000, ...Array(9).fill(60000), 900_000]);
});

for (const [header, want] of [['7', 7_000], ['0', 1_000], ['100000', 15 * 60_000], ['Mon, 30 Nov 2026 10:00:30 GMT', 30_000], ['soon', 500], ['-5', 500], ['1.5', 500]]) {
  test(`Retry-After: ${header}`, async (t) => {
    const b = bench(t);
    b.server.script = [problem(503, 'UNAVAILABLE', {}, { 'Retry-After': header })];
    const key = await b.pay(b.tab({ random: () => header.match(/^[sS1-]/) && want === 500 ? 1 : 0 }));
    await b.clock.pass(want - 1);
    assert.equal(b.server.posts.length, 1);
    await b.clock.pass(1);
    assert.equal(b.server.posts.length, 2);
    once(b, key);
  });
}

test('ten presses are one payment', async (t) => {
  const b = bench(t);
  b.server.script = ['lose-answer', 'lose-request', problem(503, 'UNAVAILABLE')];
  const tab = b.tab();
  await tab.start(user);
  const { key } = await tab.draft(user);
  const pressed = await Promise.all(Array.from({ length: 10 }, () => tab.pay({ key, user, body })));
  assert.deepEqual(pressed.map((p) => p.found), ['', ...Array(9).fill('key')]);
  await b.clock.pass(hour);
  assert.equal((await b.store.get(key)).state, State.DONE);
  assert.equal(b.server.posts.length, 4);
  once(b, key);
});

test('a form that was sent is not sent with other content', async (t) => {
  const b = bench(t);
  const tab = b.tab();
  const key = await b.pay(tab);
  await assert.rejects(tab.pay({ key, user, body: body.replace('500', '400') }), KeyTaken);
  assert.equal(b.server.posts.length, 1);
});

test('a second form waits for the first one', async (t) => {
  const b = bench(t);
  b.server.script = ['lose-answer'];
  const tab = b.tab();
  const key = await b.pay(tab);
  const second = await tab.pay({ key: 'another-key-of-the-form', user, body: body.replace('500', '400') });
  assert.equal(second.found, 'open');
  assert.equal(second.payment.key, key);
  await b.clock.pass(hour);
  once(b, key);
});

test('the draft is the same in each tab until it is sent', async (t) => {
  const b = bench(t);
  const [one, two] = [b.tab(), b.tab()];
  const key = await b.pay(one);
  const next = await one.draft(user);
  assert.notEqual(next.key, key);
  assert.equal((await two.draft(user)).key, next.key);
  assert.ok(await two.keepDraft({ ...next, fields: { amount: '5' } }));
  assert.equal((await one.draft(user)).fields.amount, '5');
  assert.ok(!(await one.keepDraft({ ...next, key, fields: {} })));
  assert.notEqual((await one.draft('wallet:tithi')).key, next.key);
});

test('a killed tab: at every step the next one finishes it, once', async (t) => {
  // The tab is killed at the n-th thing that it does to the store or the network.
  for (let n = 1; n < 12; n++) {
    const b = bench(t);
    b.server.script = ['lose-answer'];
    const tab = b.tab();
    let done = 0;
    let key;
    const die = () => { if (++done === n) tab.kill(); };
    const { store, server } = b;
    for (const name of ['get', 'begin', 'change']) {
      const real = store[name].bind(store);
      store[name] = async (...args) => { const given = await real(...args); die(); return given; };
    }
    const { fetch } = server;
    server.fetch = async (...args) => { die(); const given = await fetch(...args); die(); return given; };
    await tab.start(user);
    ({ key } = await tab.draft(user));
    tab.pay({ key, user, body });
    await b.clock.pass(700);
    tab.kill();
    const [kept] = await store.list(user);
    if (server.posts.length > 0) assert.ok(kept, `killed at ${n}: it was sent and is not kept`);
    const next = b.tab();
    await next.start(user);
    await b.clock.pass(hour);
    if (kept) assert.equal((await store.get(key)).state, State.DONE, `killed at ${n}`);
    assert.equal(server.books.size, kept ? 1 : 0, `killed at ${n}`);
    once(b, key);
  }
});

test('a try whose end was not seen leaves the payment in doubt', async (t) => {
  const b = bench(t);
  b.server.script = ['hang', problem(400, 'INVALID_ARGUMENT')];
  b.server.lookScript = ['lose-request', 'lose-request', 'lose-request'];
  const tab = b.tab();
  const key = await b.pay(tab);
  tab.kill();
  const next = b.tab();
  await next.start(user);
  await idle();
  const p = await b.store.get(key);
  assert.equal(p.attempts, 2);
  assert.ok(p.doubt);
  assert.equal(p.state, State.IN_FLIGHT);
  assert.equal(p.next, 'look');
  await assert.rejects(next.mend(key, '{}'), NotAllowed);
  await assert.rejects(next.discard(key), NotAllowed);
});

test('of two tabs one sends, and the other goes on when it dies', async (t) => {
  const b = bench(t);
  b.server.script = Array(3).fill('lose-request');
  const [one, two] = [b.tab(), b.tab()];
  const seen = [];
  await two.start(user);
  two.subscribe((key) => seen.push(key));
  const key = await b.pay(one);
  await b.clock.pass(500);
  assert.equal(b.server.posts.length, 2);
  assert.ok(seen.includes(key));
  one.kill();
  await idle();
  assert.equal(b.server.posts.length, 3, 'the other one tries at once');
  await b.clock.pass(hour);
  assert.equal((await b.store.get(key)).state, State.DONE);
  assert.equal(b.server.posts.length, 4);
  once(b, key);
});

test('a tab that does not send hurries the one that does', async (t) => {
  const b = bench(t);
  b.server.script = [problem(503, 'UNAVAILABLE', {}, { 'Retry-After': '600' })];
  const [one, two] = [b.tab(), b.tab()];
  await two.start(user);
  const key = await b.pay(one);
  await two.tryNow(key);
  await idle();
  assert.equal(b.server.posts.length, 2);
  assert.equal((await b.store.get(key)).state, State.DONE);
});

test('the end is shown once, in one tab', async (t) => {
  const b = bench(t);
  const [one, two] = [b.tab(), b.tab()];
  const key = await b.pay(one);
  const shown = await Promise.all([one.show(key), two.show(key), one.show(key), b.tab().show(key)]);
  assert.deepEqual(shown.sort(), [false, false, false, true]);
});

test('401 waits for a token, and then sends the same again', async (t) => {
  const b = bench(t);
  b.server.script = ['lose-answer', problem(401, 'UNAUTHENTICATED')];
  const tab = b.tab();
  const key = await b.pay(tab);
  await b.clock.pass(hour);
  let p = await b.store.get(key);
  assert.equal(p.hold, 'sign-in');
  assert.equal(p.state, State.IN_FLIGHT);
  assert.equal(b.server.posts.length, 2);
  await tab.resume(key);
  await idle();
  p = await b.store.get(key);
  assert.equal(p.state, State.DONE);
  assert.ok(p.replayed);
  once(b, key);
});

test('without a token nothing is sent', async (t) => {
  const b = bench(t);
  b.token = null;
  const tab = b.tab();
  const key = await b.pay(tab);
  assert.equal(b.server.requests.length, 0);
  assert.equal((await b.store.get(key)).hold, 'sign-in');
  b.token = 'sandbox-shimul';
  await tab.resume(key);
  await idle();
  assert.equal((await b.store.get(key)).state, State.DONE);
});

test("another user's payments are not sent", async (t) => {
  const b = bench(t);
  b.server.script = ['lose-answer'];
  const tab = b.tab();
  const key = await b.pay(tab);
  await tab.start('wallet:tithi');
  await b.clock.pass(hour);
  assert.equal(b.server.posts.length, 1);
  await tab.start(user);
  await b.clock.pass(hour);
  assert.equal((await b.store.get(key)).state, State.DONE);
  once(b, key);
});

test('a request that is not understood is mended under the same key', async (t) => {
  const b = bench(t);
  b.server.script = [problem(422, 'ACCOUNT_NOT_FOUND')];
  const tab = b.tab();
  const key = await b.pay(tab, { body: body.replace('tithi', 'titi') });
  assert.equal((await b.store.get(key)).mendable, true);
  await tab.mend(key, body);
  await idle();
  assert.equal((await b.store.get(key)).state, State.DONE);
  assert.deepEqual(b.server.posts.map((r) => r.headers.get('Idempotency-Key')), [key, key]);
  await assert.rejects(tab.mend(key, body), NotAllowed);
});

test('a payment that was never decided can be discarded, and the next one begin', async (t) => {
  const b = bench(t);
  b.server.script = [problem(403, 'PERMISSION_DENIED')];
  const tab = b.tab();
  const key = await b.pay(tab);
  await tab.discard(key);
  assert.equal(await b.store.get(key), undefined);
  const next = await b.pay(tab);
  assert.notEqual(next, key);
  assert.equal(b.server.books.size, 1);
});

test('offline nothing is sent, and at once when the network is back', async (t) => {
  const b = bench(t);
  b.online = false;
  const tab = b.tab();
  const key = await b.pay(tab);
  await b.clock.pass(hour);
  assert.equal(b.server.requests.length, 0);
  b.online = true;
  await tab.wake();
  await idle();
  assert.equal((await b.store.get(key)).state, State.DONE);
  assert.equal(b.server.posts.length, 1);
});

test('wake ends the wait of a payment', async (t) => {
  const b = bench(t);
  b.server.script = [problem(503, 'UNAVAILABLE', {}, { 'Retry-After': '600' })];
  const tab = b.tab();
  const key = await b.pay(tab);
  await tab.wake();
  await idle();
  assert.equal((await b.store.get(key)).state, State.DONE);
});

test('after 24 hours the key is looked up: it was paid', async (t) => {
  const b = bench(t);
  b.server.script = ['lose-answer', ...Array(5000).fill(away)];
  b.server.lookScript = ['lose-request', problem(503, 'UNAVAILABLE')];
  const key = await b.pay(b.tab());
  await b.clock.pass(24 * hour + 20 * 60_000);
  const p = await b.store.get(key);
  assert.equal(p.state, State.DONE);
  assert.equal(p.result.transfer_id, [...b.server.books.values()].map((a) => JSON.parse(a.body).transfer_id)[0]);
  once(b, key);
});

test('after 24 hours the key is looked up: it was refused', async (t) => {
  const b = bench(t);
  b.server.refuse = 'INSUFFICIENT_FUNDS';
  b.server.script = ['lose-answer', ...Array(5000).fill(away)];
  b.server.lookScript = [];
  const key = await b.pay(b.tab());
  await b.clock.pass(24 * hour + 20 * 60_000);
  const p = await b.store.get(key);
  assert.equal(p.state, State.REJECTED);
  assert.equal(p.problem.code, 'INSUFFICIENT_FUNDS');
});

test('after 24 hours and not in the books it is UNKNOWN, not sent again, and can be asked for once more', async (t) => {
  const b = bench(t);
  b.server.script = Array(5000).fill(away);
  b.server.lookScript = [];
  const tab = b.tab();
  const key = await b.pay(tab);
  await b.clock.pass(24 * hour + 20 * 60_000);
  assert.equal((await b.store.get(key)).state, State.UNKNOWN);
  const sent = b.server.posts.length;
  b.server.script = [];
  await b.clock.pass(24 * hour);
  assert.equal(b.server.posts.length, sent);
  await tab.tryNow(key);
  await idle();
  assert.equal((await b.store.get(key)).state, State.UNKNOWN);
  b.server.answer({ method: 'POST', headers: new Headers({ 'Idempotency-Key': key }), body }); // the try of yesterday arrives
  await tab.tryNow(key);
  await idle();
  assert.equal((await b.store.get(key)).state, State.DONE);
  assert.equal(b.server.posts.length, sent);
});

test('refused without a word on an earlier try: the key is looked up, and it is UNKNOWN until a person asks for it', async (t) => {
  const b = bench(t);
  b.server.script = ['lose-request', problem(422, 'ACCOUNT_NOT_FOUND')];
  b.server.lookScript = [];
  const tab = b.tab();
  const key = await b.pay(tab);
  await b.clock.pass(hour);
  assert.equal((await b.store.get(key)).state, State.UNKNOWN);
  assert.equal(b.server.posts.length, 2);
  await tab.tryNow(key); // within the 24 hours it is sent again
  await idle();
  assert.equal((await b.store.get(key)).state, State.DONE);
  once(b, key);
});

test('a token that fails for the moment is asked for again', async (t) => {
  const b = bench(t);
  let fail = true;
  const key = await b.pay(b.tab({ token: () => { if (fail) throw new Error('away'); return 'sandbox-shimul'; } }));
  assert.equal((await b.store.get(key)).state, State.PENDING);
  fail = false;
  await b.clock.pass(5_000);
  assert.equal((await b.store.get(key)).state, State.DONE);
});

test('a clock that is set back does not stop it, and one set ahead does not lose it', async (t) => {
  for (const jump of [-48 * hour, -hour, hour, 23 * hour]) {
    const b = bench(t);
    b.server.script = ['lose-answer', problem(503, 'UNAVAILABLE', {}, { 'Retry-After': '60' })];
    const key = await b.pay(b.tab());
    await b.clock.pass(500);
    b.clock.jump(jump);
    await b.clock.pass(16 * 60_000);
    assert.equal((await b.store.get(key)).state, State.DONE, `${jump / hour} h`);
    once(b, key);
  }
});

test('a clock that is set ahead by a year while the browser is closed: one more try, and then the look-up', async (t) => {
  const b = bench(t);
  b.server.script = ['lose-answer', 'lose-request'];
  b.server.lookScript = [];
  const tab = b.tab();
  const key = await b.pay(tab);
  tab.kill();
  b.clock.jump(365 * 24 * hour);
  await b.tab().start(user);
  await b.clock.pass(1_000);
  assert.equal((await b.store.get(key)).state, State.DONE);
  assert.equal(b.server.posts.length, 2);
});

test('what was never sent for a day is sent when a person says so', async (t) => {
  const b = bench(t);
  b.online = false;
  const tab = b.tab();
  const key = await b.pay(tab);
  await b.clock.pass(25 * hour);
  b.online = true;
  await tab.wake();
  await idle();
  assert.equal((await b.store.get(key)).hold, 'stale');
  assert.equal(b.server.requests.length, 0);
  await tab.resume(key);
  await idle();
  assert.equal((await b.store.get(key)).state, State.DONE);
});

test('a key that names another payment: the books say which', async (t) => {
  const b = bench(t);
  b.server.lookScript = [];
  const tab = b.tab();
  await tab.start(user);
  const { key } = await tab.draft(user);
  b.server.answer({ method: 'POST', headers: new Headers({ 'Idempotency-Key': key }), body: body.replace('500.00', '400.00') });
  await tab.pay({ key, user, body });
  await idle();
  const p = await b.store.get(key);
  assert.equal(p.state, State.REJECTED);
  assert.equal(p.problem.code, 'IDEMPOTENCY_KEY_REUSED');
  assert.equal(b.server.books.size, 1);
});

test('leases: one at a time, and taken over when the holder is gone', async () => {
  const clock = new FakeClock();
  const store = new MemoryStore();
  const never = new AbortController();
  const got = [];
  let free;
  const one = leaseLocks(store, clock, { holder: 'one' });
  const two = leaseLocks(store, clock, { holder: 'two' });
  const first = one.hold('x', never.signal, () => { got.push('one'); return new Promise((resolve) => { free = resolve; }); });
  await idle();
  const second = two.hold('x', never.signal, async () => { got.push('two'); });
  await clock.pass(60_000); // the holder renews
  assert.deepEqual(got, ['one']);
  free();
  await first;
  await clock.pass(1_000);
  await second;
  assert.deepEqual(got, ['one', 'two']);
  await store.lease('x', 'dead', clock.now(), 20_000);
  const third = two.hold('x', never.signal, async () => { got.push('two'); });
  await clock.pass(19_000);
  assert.equal(got.length, 2);
  await clock.pass(2_000);
  await third;
  assert.equal(got.length, 3);
});

test('without a channel and Web Locks two tabs still pay once', async (t) => {
  const b = bench(t);
  b.server.script = ['lose-answer', 'lose-request'];
  const tabs = ['one', 'two'].map((holder) => b.tab({ channel: null, locks: leaseLocks(b.store, b.clock, { holder }) }));
  await tabs[1].start(user);
  const key = await b.pay(tabs[0]);
  await b.clock.pass(10_000);
  assert.equal((await b.store.get(key)).state, State.DONE);
  assert.equal(b.server.posts.length, 3);
  once(b, key);
});

test('prune forgets what ended long ago and was shown', async (t) => {
  const b = bench(t);
  const tab = b.tab();
  const key = await b.pay(tab);
  await b.clock.pass(8 * 24 * hour);
  await tab.prune(user, 7 * 24 * hour);
  assert.ok(await b.store.get(key));
  await tab.show(key);
  await b.clock.pass(8 * 24 * hour);
  await tab.prune(user, 7 * 24 * hour);
  assert.equal(await b.store.get(key), undefined);
});
