/** The test vectors of ledger/payclient, which all clients share: docs/client-protocol.md says how to read them. */
import test from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, existsSync } from 'node:fs';
import { KeyTaken, newKey } from '../src/index.js';
import { newPayment } from '../src/payment.js';
import { Bench, idle, user } from './bench.js';

const folder = new URL('../../testdata/vectors/', import.meta.url);
const second = 1000;

/** Script answers the requests of one run as the vector says, and notes when they came. */
class Script {
  constructor(bench, requests, key) {
    Object.assign(this, { bench, steps: requests.map((r) => ({ ...r })), key, last: bench.clock.since(), began: bench.began, bodies: [] });
  }

  fetch = async (url, init) => {
    const { clock } = this.bench;
    const method = init.method ?? 'GET';
    let step = this.steps[0];
    // A step that repeats ends where the request is of the next one.
    if (step?.repeat && step.came && this.steps[1]?.expect.method === method && method !== step.expect.method) this.steps.shift();
    [step] = this.steps;
    try {
      assert.ok(step, `${method} ${url}: nothing was to be sent any more`);
      if (step.repeat) step.came = true;
      else this.steps.shift();
      assert.equal(method, step.expect.method);
      assert.equal(url, step.expect.path.replace('{key}', this.key));
      const headers = new Headers(init.headers);
      if (method === 'POST') {
        assert.equal(headers.get('Idempotency-Key'), this.key);
        this.bodies.push(init.body);
      }
      const waited = (clock.since() - this.last) / second;
      const [least, most] = step.wait ?? [0, Infinity];
      assert.ok(waited >= least - 0.01 && waited <= most + 0.01, `waited ${waited} s, want ${least} to ${most}`);
      if (step.at) {
        // As a first try of 0.1 s counts for itself, an answer or two may lie between the horizon and the request.
        const at = (clock.since() - this.began) / second;
        assert.ok(at >= step.at[0] - 1 && at <= step.at[1] + 1, `came at ${at} s, want ${step.at}`);
      }
    } catch (err) {
      this.failed ??= err;
      throw err;
    }
    if (step.crash) {
      this.crashed = true;
      return new Promise(() => {});
    }
    await new Promise((resolve) => { clock.setTimeout(resolve, (step.takes ?? 0) * second); });
    if (step.clock_step) clock.jump(step.clock_step * second);
    this.last = clock.since();
    if (step.stop) this.stopped = true;
    if (step.drop) throw new TypeError('network error');
    const { status, headers, body } = step.answer;
    const text = step.half ? async () => { throw new TypeError('the connection was cut'); } : async () => body;
    return { status, headers: new Headers(headers), text };
  };
}

/** stored gives the record that a vector begins with. */
function stored({ key, body, state, attempts = 0, unanswered = 0, elapsed, created_ago: created = 0, first_sent_ago: first, updated_ago: updated = 0 }, path, now) {
  const p = newPayment({ key, user, path, body }, now - created * second);
  return {
    ...p, state, attempts, doubt: unanswered > 0, firstSentAt: first === undefined ? null : now - first * second,
    elapsed: (elapsed ?? 0) * second, elapsedAt: now - updated * second,
  };
}

async function play(v, t) {
  const bench = new Bench();
  t.after(() => bench.close());
  bench.began = bench.clock.since();
  const { path } = v.payment;
  let key = v.store?.key ?? newKey();
  let bytes = v.store?.body;
  if (v.store) await bench.store.begin(stored(v.store, path, bench.clock.now()), () => false);
  for (const [i, run] of v.runs.entries()) {
    const name = `run ${i + 1}`;
    await bench.clock.pass((run.away ?? 0) * second);
    if (run.clock) bench.clock.jump(run.clock * second);
    const script = new Script(bench, run.requests, key);
    bench.server.fetch = script.fetch;
    const tab = bench.tab({ random: Math.random, timeout: 30 * second });
    let taken = false;
    if (run.do === 'pay') {
      const body = JSON.stringify(run.body ?? v.payment.body);
      bytes ??= body;
      if ((await tab.get(key))?.state === 'UNKNOWN') await tab.tryNow(key);
      await tab.start(user);
      await tab.pay({ key, user, path, body }).catch((err) => { taken = err instanceof KeyTaken; if (!taken) throw err; });
      if ((await tab.get(key)).hold) await tab.resume(key);
    } else {
      await tab.start(user);
      const p = await tab.get(key);
      if (p.hold) await tab.resume(key);
      if (run.do === 'lookup' && p.state !== 'UNKNOWN') return t.skip('a look-up at any time is not something that this client does');
    }
    // As long as the vector wants something; then a while longer, in which nothing may come.
    for (let n = 0; n < 40_000 && !script.failed && !script.crashed && !script.stopped; n++) {
      const p = await tab.get(key);
      if (script.steps.length === 0 && !p.flying && !p.asking && (p.hold || p.state === 'DONE' || p.state === 'REJECTED' || p.state === 'UNKNOWN')) break;
      await bench.clock.pass(p.nextAt === null ? 50 : Math.max(50, Math.min(600 * second, p.nextAt - bench.clock.now())));
    }
    await idle();
    const p = await tab.get(key);
    tab.kill();
    if (script.failed) throw script.failed;
    for (const sent of script.bodies) assert.equal(sent, bytes, `${name}: every try has the same bytes`);
    if (!run.end || run.end.outcome === 'crashed') continue;
    assert.equal(taken, run.end.outcome === 'taken', name);
    if (taken) continue;
    const { state, attempts, ambiguous, replayed, code, transfer_id: number } = run.end;
    assert.equal(p.state, state, name);
    assert.equal(p.hold === 'sign-in', run.end.outcome === 'paused', name);
    if (attempts !== undefined) assert.equal(p.attempts, attempts, `${name}: attempts`);
    if (ambiguous !== undefined) assert.equal(p.state !== 'DONE' && p.state !== 'REJECTED' && (p.doubt || p.flying), ambiguous, `${name}: ambiguous`);
    if (replayed !== undefined) assert.equal(p.replayed, replayed, `${name}: replayed`);
    if (code !== undefined && p.state !== 'UNKNOWN') assert.equal(p.problem.code, code, `${name}: code`);
    if (number !== undefined) assert.equal(p.result?.transfer_id ?? p.problem?.transfer_id ?? '', number, `${name}: number`);
    assert.equal(script.steps.filter((s) => !s.repeat).length, 0, `${name}: what was to be sent was`);
  }
}

if (existsSync(folder)) {
  for (const file of readdirSync(folder).filter((f) => f.endsWith('.json')).sort()) {
    const v = JSON.parse(readFileSync(new URL(file, folder)));
    test(`${file}: ${v.title}`, (t) => play(v, t));
  }
}
