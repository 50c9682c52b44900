/** The card above the form: how the payment stands, in plain words, and what can be done about it. */
import { element, hasText, make, page, say, text, when } from './page.js';
import { digits, formatAmount } from './payclient/amount.js';

/** What is shown, so that the same is not read out again. */
let shown = '';

/** amounts gives what a payment is about, as people read it. */
export function about(payment) {
  const { to, amount, currency } = JSON.parse(payment.body);
  return { to, amount: formatAmount(amount, currency, page.language) };
}

/** reason says in plain words why a payment was refused. */
export function reason(payment) {
  const { code = '', detail = '', fields = [], transfer_id: recorded } = payment.problem ?? {};
  const words = hasText(`rejected.${code}`) ? text(`rejected.${code}`) : text('rejected.other', { code });
  const more = !recorded && code === 'INVALID_ARGUMENT' ? [detail, ...fields.map((f) => `${f.field}: ${f.message}`)].filter(Boolean).join('; ') : '';
  return more ? `${words} (${more})` : words;
}

/**
 * show shows a card, or none.
 *
 * @param {null|{kind: string, title: string, lines: (string|Node)[], choices: {name: string, words: string, main?: boolean, do: () => void}[]}} card
 */
export function show(card) {
  const box = element('status');
  const now = card === null ? '' : JSON.stringify([card.kind, card.title, card.lines.map((l) => l.textContent ?? l), card.choices.map((c) => c.words)]);
  if (now === shown) return;
  shown = now;
  box.hidden = card === null;
  box.className = `status ${card?.kind ?? ''}`;
  const focused = document.activeElement?.closest?.('#choices')?.id;
  element('say').replaceChildren(...(card ? [make('h2', {}, card.title), ...card.lines.map((l) => (l instanceof Node ? l : make('p', {}, l)))] : []));
  element('choices').replaceChildren(...(card?.choices ?? []).map((choice) => {
    const button = make('button', { type: 'button', class: choice.main ? 'second strong' : 'second', id: `choice-${choice.name}` }, choice.words);
    button.addEventListener('click', choice.do);
    return button;
  }));
  // A button that had the focus is gone: the focus stays with what is said instead.
  if (focused && card) box.focus();
  if (card === null) countDown(null);
  if (wanted) focus();
}

/** Whether the focus is to come here as soon as there is something to see. */
let wanted = false;

/** focus brings a person who has pressed to what came of it. */
export function focus() {
  const box = element('status');
  wanted = box.hidden;
  if (!wanted) box.focus();
}

let payment = null;

/** countDown says when the next try is. It is no part of what is read out. */
export function countDown(p) {
  payment = p;
  tick();
}

function tick() {
  say(element('next'), payment === null ? '' : progress(payment));
}
setInterval(tick, 500);

function progress(p) {
  const n = (value) => digits(value, page.language);
  const tries = p.attempts === 1 ? text('waiting.tries.one') : text('waiting.tries', { n: n(p.attempts) });
  if (!navigator.onLine) return `${tries} ${text('waiting.offline')}`;
  const seconds = p.nextAt === null ? 0 : Math.ceil((p.nextAt - Date.now()) / 1000);
  if (p.flying || seconds <= 0) return `${tries} ${text('waiting.now')}`;
  const wait = seconds < 120 ? text('waiting.next', { seconds: n(seconds) }) : text('waiting.minutes', { minutes: n(Math.round(seconds / 60)) });
  return `${tries} ${wait}`;
}

/** receipt is what is shown once of a payment that was made. */
export function receipt(p) {
  const { to } = about(p);
  const facts = make('dl', { class: 'facts' });
  for (const [name, value] of [['sent.number', p.result.transfer_id], ['sent.time', when(p.result.posted_at ?? p.updatedAt)]]) {
    facts.append(make('dt', {}, text(name)), make('dd', {}, value));
  }
  return [text('sent.to', { to }), facts, ...(p.attempts > 1 ? [text('sent.again', { n: digits(p.attempts, page.language) })] : [])];
}
