/**
 * The state of one payment, and what changes it. Everything here is a function of a record and gives a new one: who stores it, and when,
 * is the client's business.
 *
 *   stored --->  PENDING ---- a try ---> IN_FLIGHT ---- 201 -----------------------------> DONE
 *                   ^                      |  ^  |
 *                   |        no answer yet +--+  +----- 422 with transfer_id ------------> REJECTED
 *                   |                            |      another 4xx, nothing in doubt --->     |
 *                   |                            +----- 24 h, and not in the books ------> UNKNOWN
 *                   +--------------------- mended, where no refusal is on record --------------+
 *
 * UNKNOWN is after 24 hours, or when the server refuses the request without saying what became of an earlier try. It is looked up, and sent
 * within the 24 hours, when a person asks for it.
 *
 * hold says that it goes on only after a person has done something: 'sign-in' (401, 403) or 'stale' (it was never sent, and that was long
 * ago).
 */
import { judge, judgeLookUp } from './answer.js';
import { pause, retryAfter } from './schedule.js';

export const State = Object.freeze({
  PENDING: 'PENDING',
  IN_FLIGHT: 'IN_FLIGHT',
  DONE: 'DONE',
  REJECTED: 'REJECTED',
  UNKNOWN: 'UNKNOWN',
});

/** HORIZON is for how long the same is sent again, from the first sending. The server keeps answers for twice as long. */
export const HORIZON = 24 * 60 * 60_000;

/** How often it is asked what became of a key, before the answer is UNKNOWN. */
const MOST_LOOKS = 3;

const MOST_LOGGED = 80;

/**
 * @typedef {object} Payment
 * @property {string} key
 * @property {string} user whose it is; a name of the page's own, and no secret
 * @property {string} path such as /v1/transfers
 * @property {string} body the exact text that every try sends
 * @property {string} state
 * @property {number} createdAt
 * @property {number|null} firstSentAt
 * @property {number} elapsed what is known to have passed since the first sending; it only grows, whatever the clock does
 * @property {number} elapsedAt when that was known
 * @property {number|null} nextAt when the next try is due, for people to see; null is at once
 * @property {number} attempts
 * @property {boolean} flying whether a try is under way; if nobody sends, its end was not seen
 * @property {boolean} doubt whether a try ended without an answer
 * @property {'send'|'look'} next
 * @property {number} looks look-ups in a row without an answer
 * @property {null|'look'|'send'} asking of UNKNOWN: what is to be done once
 * @property {null|'sign-in'|'stale'} hold
 * @property {object|null} result of DONE
 * @property {string|null} answer of DONE and REJECTED, as it came
 * @property {boolean} replayed of DONE and REJECTED, whether an earlier try had led to it
 * @property {import('./answer.js').Problem|null} problem
 * @property {boolean} mendable of REJECTED, whether another body may be sent under this key: nothing was decided under it
 * @property {boolean} shown whether a person was told how it ended
 * @property {number} updatedAt
 * @property {object[]} log
 */

/** @returns {Payment} */
export function newPayment({ key, user, path, body }, now) {
  const payment = {
    key, user, path, body, state: State.PENDING, createdAt: now, firstSentAt: null, elapsed: 0, elapsedAt: now, nextAt: null, attempts: 0,
    flying: false, doubt: false,
    next: 'send', looks: 0, asking: null, hold: null, result: null, answer: null, replayed: false, problem: null, mendable: false, shown: false, updatedAt: now, log: [],
  };
  return noted(payment, now, { what: 'kept', bytes: new TextEncoder().encode(body).length });
}

/** isOpen reports whether the payment may still be sent: until it is not, no other one of its user begins. */
export function isOpen(p) {
  return p.state === State.PENDING || p.state === State.IN_FLIGHT;
}

/** isFinal reports whether the books have decided. */
export function isFinal(p) {
  return p.state === State.DONE || p.state === State.REJECTED;
}

/** inDoubt reports whether money may have moved without anybody here knowing. */
export function inDoubt(p) {
  return !isFinal(p) && (p.doubt || p.flying);
}

/** isDriven reports whether there is something to do without a person. */
export function isDriven(p) {
  return !p.hold && (isOpen(p) || (p.state === State.UNKNOWN && p.asking !== null));
}

/** isUndecided reports whether nothing can have been decided under its key. */
export function isUndecided(p) {
  return (isOpen(p) || p.mendable) && !inDoubt(p);
}

/**
 * due is what is to be done next.
 *
 * @param {{now: number, elapsed: number, tries: number}} at tries are those of this run: one is made even if it seems to be late, which
 *   may be the clock's fault
 * @returns {'send'|'look'|'stale'}
 */
export function due(p, { now, elapsed, tries }) {
  if (p.state === State.UNKNOWN) return p.asking === 'send' && elapsed < HORIZON ? 'send' : 'look';
  if (p.next === 'look') return 'look';
  // To send what was never decided, long after a person has asked for it, is a surprise: the person is asked again.
  if (!inDoubt(p)) return now - p.createdAt >= HORIZON ? 'stale' : 'send';
  return elapsed >= HORIZON && tries > 0 ? 'look' : 'send';
}

/** beginTry is written down before a byte of the try leaves. A try that was under way all the same has ended unseen. */
export function beginTry(p, { now, elapsed }, label) {
  const attempts = p.attempts + 1;
  return noted({
    ...p, state: State.IN_FLIGHT, attempts, looks: 0, asking: null, doubt: p.doubt || p.flying, flying: true, firstSentAt: p.firstSentAt ?? now, elapsed,
    elapsedAt: now, nextAt: null, problem: null,
  }, now, { what: 'sent', attempt: attempts, label });
}

/**
 * endTry takes in the answer to a try, or null if there was none.
 *
 * @param {Payment} p
 * @param {import('./answer.js').Answer|null} answer
 * @param {{now: number, elapsed: number, n: number, random: () => number}} at n is the number of the try in this run, from 0
 */
export function endTry(p, answer, at) {
  const { now } = at;
  const verdict = judge(answer);
  const after = { ...p, ...passed(at), flying: false };
  const log = { attempt: p.attempts, status: answer?.status, code: verdict.problem?.code, replayed: answer?.replayed };
  switch (verdict.kind) {
    case 'done':
    case 'refused':
      return settled(after, verdict, answer, now, log);
    case 'sign-in':
      return noted({ ...after, hold: 'sign-in', problem: verdict.problem }, now, { what: 'sign-in', ...log });
    case 'reused':
      // The key's first payment stands. If there was a try without an answer, it may be that one.
      if (!p.doubt) return settled(after, verdict, answer, now, log);
      return noted({ ...after, next: 'look', nextAt: null, problem: verdict.problem }, now, { what: 'reused', ...log });
    case 'mend':
      if (!p.doubt) return settled({ ...after, mendable: true }, verdict, answer, now, log);
      // It says nothing of the earlier try that had no answer, and another one would hear the same: the key is looked up.
      return noted({ ...after, next: 'look', nextAt: null, problem: verdict.problem }, now, { what: 'mend', ...log });
    default:
      return waiting({ ...after, doubt: true, problem: verdict.problem ?? null }, answer, at, { what: answer ? 'no-decision' : 'no-answer', ...log });
  }
}

/** endLookUp takes in the answer to a look-up by key. */
export function endLookUp(before, answer, at) {
  const { now } = at;
  const p = { ...before, ...passed(at) };
  const verdict = judgeLookUp(answer);
  const log = { status: answer?.status, code: verdict.problem?.code };
  switch (verdict.kind) {
    case 'done':
      if (!isSame(p.body, verdict.result)) {
        const problem = { status: 422, code: 'IDEMPOTENCY_KEY_REUSED', detail: verdict.result.transfer_id };
        return settled(p, { kind: 'refused', problem }, answer, now, { ...log, lookedUp: true });
      }
      return settled(p, verdict, answer, now, { ...log, lookedUp: true });
    case 'refused':
      return settled(p, verdict, answer, now, { ...log, lookedUp: true });
    case 'sign-in':
      return noted({ ...p, hold: 'sign-in', problem: verdict.problem, next: 'look' }, now, { what: 'sign-in', ...log });
    case 'none':
      return unknown(p, now, log);
    default:
      if (p.looks + 1 >= MOST_LOOKS) return unknown(p, now, log);
      return waiting({ ...p, looks: p.looks + 1, next: 'look' }, answer, { ...at, n: p.looks }, { what: 'no-look', ...log });
  }
}

function unknown(p, now, log) {
  return noted({ ...p, state: State.UNKNOWN, asking: null, next: 'send', looks: 0, nextAt: null, doubt: true, flying: false }, now, { what: 'unknown', ...log });
}

/** freed lets a payment go on that a person was needed for. */
export function freed(p, now) {
  return noted({ ...p, ...(p.hold === 'stale' ? anew(now) : {}), hold: null, nextAt: null }, now, { what: 'freed', hold: p.hold });
}

/** hurried makes the next try due, because a person wants it; or only a look-up of one that is UNKNOWN. */
export function hurried(p, now, how = 'send') {
  return noted({ ...p, nextAt: null, asking: p.state === State.UNKNOWN ? how : null }, now, { what: 'hurried', how });
}

/** held stops a payment until a person has done something. */
export function held(p, hold, now) {
  return noted({ ...p, hold }, now, { what: hold });
}

/** mended gives another body to a payment of which nothing was decided. */
export function mended(p, body, now) {
  return noted({
    ...p, ...anew(now), state: State.PENDING, body, hold: null, problem: null, answer: null, mendable: false, nextAt: null, shown: false,
  }, now, { what: 'mended' });
}

/** The 24 hours begin with the next sending. */
function anew(now) {
  return { createdAt: now, firstSentAt: null, elapsed: 0, elapsedAt: now };
}

function passed({ now, elapsed }) {
  return { elapsed, elapsedAt: now };
}

function settled(p, verdict, answer, now, log) {
  const state = verdict.kind === 'done' ? State.DONE : State.REJECTED;
  return noted({
    ...p, state, flying: false, hold: null, asking: null, nextAt: null, result: verdict.result ?? null, problem: verdict.problem ?? null,
    answer: answer.body, replayed: Boolean(answer.replayed) || (state === State.DONE && Boolean(log.lookedUp)),
  }, now, { what: verdict.kind, ...log });
}

function waiting(p, answer, { now, elapsed, n, random }, log) {
  const asked = retryAfter(answer?.retryAfter, now, answer?.date);
  // Look-ups are few, and follow each other quickly whenever they come.
  let wait = pause(n, p.next === 'look' ? 0 : elapsed, asked, random);
  if (p.next === 'send') wait = Math.min(wait, Math.max(0, HORIZON - elapsed));
  return noted({ ...p, nextAt: now + wait }, now, { ...log, wait, asked: asked !== undefined });
}

/** isSame compares what is asked for with a payment as the books tell it, which has more fields. */
function isSame(body, payment) {
  const asked = parse(body);
  if (!asked) return true; // The books have a payment of this key, and there is nothing to compare it with.
  return (asked.note ?? '') === (payment.note ?? '') &&
    ['from', 'to', 'currency', 'amount'].every((name) => asked[name] === undefined || payment[name] === undefined || canonical(name, asked) === canonical(name, payment));
}

/** isSameRequest reports whether two bodies ask for the same, as the server sees it. */
export function isSameRequest(one, two) {
  const [a, b] = [parse(one), parse(two)];
  if (!a || !b) return one === two;
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].every((name) => canonical(name, a) === canonical(name, b));
}

function parse(body) {
  try {
    return JSON.parse(body);
  } catch {
    return null;
  }
}

function canonical(name, of) {
  if (name === 'note') return of.note ?? '';
  if (name !== 'amount' && name !== 'expected_refunded') return of[name];
  const [whole, fraction = ''] = String(of[name]).split('.');
  return `${whole}.${fraction.replace(/0+$/, '')}`;
}

/** noted adds a line to the log, which keeps its beginning. */
function noted(p, now, line) {
  const log = [...p.log, { at: now, ...line }];
  if (log.length > MOST_LOGGED) log.splice(MOST_LOGGED / 2, log.length - MOST_LOGGED);
  return { ...p, updatedAt: now, log };
}
