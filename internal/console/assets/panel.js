/** The panel of a sandbox: what each guard on the way of the latest payment did. It says only what this page can know, or has looked up. */
import { element, make, page, say, text } from './page.js';
import { digits, formatAmount } from './payclient/amount.js';
import { knock } from './api.js';

const TIMES = 10;

const n = (value) => digits(value, page.language);

/** Presses of the button by key, and what knocking past it gave. */
const presses = new Map();
const knocks = new Map();

/** pressed counts a press of the button that was for this payment. */
export function pressed(key) {
  presses.set(key, (presses.get(key) ?? 0) + 1);
}

/** setUp gives the panel its life. changed is called when there is more to tell. */
export function setUp(state, changed) {
  element('again').addEventListener('click', async () => {
    const { latest, person } = state();
    const button = element('again');
    button.disabled = true;
    say(button, text('guard.again.running'));
    const answers = await Promise.all(Array.from({ length: TIMES }, () => knock(latest, person.token)));
    const heard = answers.filter((answer) => answer !== null);
    knocks.set(latest.key, {
      replayed: heard.filter((answer) => answer.replayed).length, lost: TIMES - heard.length,
      same: heard.every((answer) => latest.answer === null || answer.body === latest.answer || answer.body.includes(latest.result?.transfer_id)),
    });
    button.disabled = false;
    say(button, text('guard.again'));
    changed();
  });
}

/**
 * show shows a payment.
 *
 * @param {import('./payclient/payment.js').Payment|null} p
 * @param {any[]} entries of the payer's wallet
 * @param {string} currency
 */
export function show(p, entries, currency) {
  element('guards-none').hidden = p !== null;
  element('guards').hidden = p === null;
  element('steps').hidden = p === null;
  element('again').hidden = p === null || (p.state !== 'DONE' && !p.problem?.transfer_id);
  if (p === null) return;
  const guards = [button(p), app(p), network(p), api(p), ledger(p, entries, currency)];
  const list = element('guards');
  guards.forEach(([name, mark, words], i) => {
    const item = list.children[i] ?? list.appendChild(make('li', {}, make('strong', {}, text(`guard.${name}`)), make('span')));
    item.className = mark;
    say(item.lastChild, words);
  });
  element('log').replaceChildren(...p.log.map(line).filter(Boolean).map((words) => make('li', {}, words)));
}

function button(p) {
  const count = presses.get(p.key) ?? 1;
  return ['button', 'good', count > 1 ? text('guard.button.more', { n: n(count) }) : text('guard.button.once')];
}

function app(p) {
  const kept = p.log.find((l) => l.what === 'kept');
  return ['app', 'good', text('guard.app.kept', { key: `${p.key.slice(0, 8)}…`, bytes: n(kept?.bytes ?? p.body.length) })];
}

function network(p) {
  const lost = p.log.filter((l) => l.what === 'no-answer').length;
  if (p.attempts === 0 || (p.flying && lost === 0)) return ['network', 'wait', text('guard.network.first')];
  const words = { n: n(p.attempts), lost: n(lost) };
  return lost > 0 ? ['network', 'bad', text('guard.network.bad', words)] : ['network', 'good', text('guard.network.good', words)];
}

function api(p) {
  const knocked = knocks.get(p.key);
  if (knocked) {
    const words = { n: n(TIMES), replayed: n(knocked.replayed), lost: n(knocked.lost) };
    return ['api', knocked.same ? 'good' : 'bad', text(knocked.lost === 0 && knocked.same ? 'guard.api.again' : 'guard.api.differs', words)];
  }
  if (p.state === 'DONE') return ['api', 'good', text(p.replayed ? 'guard.api.replayed' : 'guard.api.first')];
  if (p.problem?.transfer_id) return ['api', 'good', text('guard.api.refused')];
  const got = p.log.some((l) => l.what === 'sent' && l.label === 'lose-answer');
  return ['api', 'wait', text(got && !p.flying ? 'guard.api.got' : 'guard.api.wait')];
}

function ledger(p, entries, currency) {
  const number = p.result?.transfer_id;
  if (p.state === 'REJECTED') return ['ledger', 'good', text('guard.ledger.none')];
  const mine = entries.filter((entry) => entry.transfer_id === number);
  if (!number || mine.length === 0) return ['ledger', 'wait', text('guard.ledger.wait')];
  const [{ balance, change }] = mine;
  const amount = (value) => formatAmount(value, currency, page.language);
  return ['ledger', mine.length === 1 ? 'good' : 'bad', text('guard.ledger.once', {
    count: n(mine.length), number: `${number.slice(0, 8)}…`, before: amount(minus(balance, change)), after: amount(balance),
  })];
}

/** minus subtracts exactly: amounts are not for floating point. */
function minus(a, b) {
  const scale = Math.max(...[a, b].map((value) => value.split('.')[1]?.length ?? 0));
  const whole = (value) => {
    const [units, fraction = ''] = value.split('.');
    return BigInt(units + fraction.padEnd(scale, '0'));
  };
  const difference = whole(a) - whole(b);
  const figures = (difference < 0n ? -difference : difference).toString().padStart(scale + 1, '0');
  const text = scale ? `${figures.slice(0, -scale)}.${figures.slice(-scale)}` : figures;
  return difference < 0n ? `-${text}` : text;
}

/** line tells one step of the log. */
function line(l) {
  const wait = l.wait === undefined ? '' : n((l.wait / 1000).toFixed(1));
  const words = { attempt: n(l.attempt ?? ''), status: n(l.status ?? 401), code: l.code ?? '', wait, bytes: n(l.bytes ?? '') };
  switch (l.what) {
    case 'sent':
      return text(l.label ? `log.sent.${l.label}` : 'log.sent', words);
    case 'done':
      return text(l.replayed || l.lookedUp ? 'log.done.replayed' : 'log.done', words);
    case 'refused':
      return text('log.refused', words);
    default:
      return page.texts[`log.${l.what}`] ? text(`log.${l.what}`, words) : '';
  }
}
