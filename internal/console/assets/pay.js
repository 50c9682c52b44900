/**
 * The pay page. What is shown follows from what is stored: after a reload, in a second tab, or when a killed browser comes back, the
 * same is read from the same store, and shown the same way. Sending is payclient's.
 */
import { IndexedDBStore, KeyTaken, NotAllowed, PayClient, State, broadcast, isOpen } from './payclient/index.js';
import { formatAmount } from './payclient/amount.js';
import { element, make, page, say, text, when } from './page.js';
import { getEntries, getWallet } from './api.js';
import * as session from './session.js';
import * as form from './form.js';
import * as status from './status.js';
import * as panel from './panel.js';
import * as network from './network.js';

const SHOWN_ENTRIES = 8;
/** The panel looks for double entries among these. */
const READ_ENTRIES = 50;
const FORGET_AFTER = 7 * 24 * 60 * 60_000;
const local = ['localhost', '127.0.0.1', '[::1]'].includes(location.hostname);

/** Who sends, and what is known of the wallet. */
let person = null;
let currency = 'BDT';
let entries = [];
/** The form's key, from the store; the latest payment; and the one whose receipt this tab shows. */
let draft = null;
let latest = null;
let receipt = null;
/** Whether the person is writing another amount while the payment is not known. */
let changing = false;
/** Whether a press is being written down. */
let pressing = false;
/** The payment whose end the wallet was read for. */
let settled = null;

const client = new PayClient({
  store: new IndexedDBStore(),
  channel: broadcast(),
  token: async (user) => (user === person?.wallet ? (await session.embedded())?.token ?? person.token : null),
  extra: () => (page.sandbox ? network.extra() : {}),
  // Here "offline" says nothing of the way to this very machine.
  online: () => local || navigator.onLine,
});

/** refresh reads the store, and shows what is so. One at a time, and once more if something has changed meanwhile. */
let refreshing = false;
let again = false;
async function refresh() {
  again = true;
  if (refreshing) return;
  refreshing = true;
  while (again) {
    again = false;
    await read().catch(noStore);
  }
  refreshing = false;
}

async function read() {
  const who = person?.wallet;
  if (!who) return render();
  const payments = await client.list(who);
  const next = await client.draft(who);
  const newest = payments.findLast(isOpen) ?? payments.at(-1) ?? null;
  const told = newest?.state === State.DONE && !next.fields?.after && document.visibilityState === 'visible' && (await client.show(newest.key));
  if (who !== person?.wallet) return;
  // From here on all of it is as it was read: nothing in between is shown.
  latest = newest;
  if (told) receipt = newest.key;
  if (draft?.key !== next.key) newForm(next);
  draft = next;
  if (latest && !isOpen(latest) && settled !== latest.key) {
    settled = latest.key;
    if (latest.state === State.DONE && !next.fields) form.fill({});
    readWallet();
  }
  render();
}

/** newForm begins a form with a key of its own. What a person is just changing stays. */
function newForm(next) {
  if (next.fields) form.fill(next.fields);
  else if (draft && !changing && !(latest && isOpen(latest))) form.fill({});
}

function render() {
  element('first').hidden = person !== null;
  element('form').hidden = person === null;
  element('offline').hidden = navigator.onLine;
  const card = person && latest ? cardOf(latest) : null;
  status.show(card);
  status.countDown(card && isOpen(latest) && !latest.hold && latest.attempts > 0 && latest.doubt ? latest : null);
  renderForm();
  if (page.sandbox) panel.show(person ? latest : null, entries, currency);
}

function renderForm() {
  const typed = form.amountTyped(currency);
  if (person === null || pressing) return form.enable(false, text(pressing ? 'button.sending' : 'button'));
  if (question()) return form.enable(false, text('button'));
  if (latest && isOpen(latest)) {
    if (!changing) {
      form.fill(form.fieldsOf(latest));
      return form.enable(false, text(latest.hold ? 'button' : latest.doubt ? 'button.waiting' : 'button.sending'));
    }
    return form.enable(!draft.fields?.after, text('button.changed', { amount: typed }));
  }
  form.enable(true, typed ? text('button.amount', { amount: typed }) : text('button'));
}

/** question reports whether a changed payment waits for the old one, or for a word of the person. */
const question = () => Boolean(draft?.fields?.after) && draft.fields.after === latest?.key;

/** cardOf says how a payment stands. */
function cardOf(p) {
  const words = { ...status.about(p), time: when(p.createdAt) };
  if (question()) return questionOf(p, words);
  if (p.hold === 'sign-in') {
    return card('signin', 'warning', words, [text('signin.body', words)], [choice('resume', 'signin.go', signInAgain, true), ...forgettable(p)]);
  }
  if (p.hold === 'stale') return card('stale', 'warning', words, [text('stale.body', words)], [choice('resume', 'stale.send', () => client.resume(p.key), true), ...forgettable(p)]);
  switch (p.state) {
    case State.PENDING:
    case State.IN_FLIGHT:
      if (!p.doubt) return card('sending', 'busy', words, [text('sending.body')], []);
      return card('waiting', 'unknown', words, [text('waiting.body', words)], [
        choice('try', 'waiting.try', () => client.tryNow(p.key), true), changing ? choice('keep', 'waiting.keep', stopChanging) : choice('change', 'waiting.change', startChanging),
      ]);
    case State.DONE:
      return receipt === p.key ? card('sent', 'sent', words, status.receipt(p), []) : null;
    case State.REJECTED:
      if (p.shown) return null;
      return card('rejected', 'rejected', words, [status.reason(p), ...(p.problem?.transfer_id ? [text('rejected.final')] : [])], [choice('ok', 'rejected.ok', () => seen(p))]);
    default:
      if (p.shown) return null;
      return card('unknown', 'unknown', words, [text('unknown.body', words)], [choice('ask', 'unknown.ask', () => client.tryNow(p.key), true), choice('ok', 'unknown.ok', () => seen(p))]);
  }
}

/** questionOf is of a payment that the person wants changed: first what became of it, and then the question. */
function questionOf(p, words) {
  const { to, amount } = draft.fields;
  const values = { ...words, changed: formatAmount(amount, currency, page.language), to, reason: p.problem ? status.reason(p) : '', number: p.result?.transfer_id };
  const no = choice('no', 'changed.no', () => answer(false));
  if (p.state === State.DONE || p.state === State.REJECTED) {
    const name = p.state === State.DONE ? 'changed.done' : 'changed.rejected';
    return {
      kind: p.state === State.DONE ? 'sent' : 'rejected', title: text(name, values), lines: [text(`${name}.body`, values)],
      choices: [{ name: 'yes', words: text(`${name}.yes`, values), main: true, do: () => answer(true) }, no],
    };
  }
  const last = p.hold === 'sign-in' ? choice('resume', 'signin.go', signInAgain, true) : choice('try', 'waiting.try', () => client.tryNow(p.key), true);
  const lines = p.hold === 'sign-in' ? [text('signin.body', words)] : p.state === State.UNKNOWN ? [text('unknown.body', words)] : [text('changing.body', values)];
  return { kind: 'unknown', title: text('changing', values), lines, choices: [last, no] };
}

const card = (name, kind, words, lines, choices) => ({ kind, title: text(name, words), lines, choices });
const choice = (name, words, action, main = false) => ({ name, words: text(words), main, do: () => Promise.resolve(action()).catch(unlessLate).then(refresh) });
const forgettable = (p) => (p.doubt || p.flying ? [] : [choice('discard', 'discard', () => client.discard(p.key))]);

/** unlessLate lets pass that a payment has gone on meanwhile: what is shown next says so. */
function unlessLate(err) {
  if (!(err instanceof NotAllowed)) noStore(err);
}

/** seen puts away how a payment ended. What nobody has decided may be mended, under its key. */
async function seen(p) {
  await client.show(p.key);
  element(person ? 'amount' : 'token')?.focus();
}

function startChanging() {
  changing = true;
  form.fill(form.fieldsOf(latest));
  render();
  element('amount').focus();
}

function stopChanging() {
  changing = false;
  render();
  status.focus();
}

/** answer is the person's word on the changed payment, now that the old one is known. */
async function answer(yes) {
  const { fields, key } = draft;
  if (latest) await client.show(latest.key);
  changing = false;
  draft = { ...draft, fields: null };
  await client.keepDraft(draft);
  if (!yes) {
    form.fill({});
    return element('amount').focus();
  }
  await send(key, form.bodyOf({ ...fields, from: person.wallet, currency }));
}

/** press is what the button does. However often it is called, the first call counts. */
async function press(event) {
  event.preventDefault();
  if (pressing || person === null || draft === null || element('button').disabled) return pressedAgain();
  const body = form.read(person.wallet, currency);
  if (body === null) return;
  if (latest && isOpen(latest) && changing) return askForChange(JSON.parse(body));
  await send(draft.key, body);
}

/** send writes a payment down, from where payclient sends it. */
async function send(key, body) {
  pressing = true;
  render();
  try {
    const { mendable, key: old } = latest ?? {};
    if (latest && !isOpen(latest)) await client.show(old);
    receipt = null;
    if (mendable && latest.state === State.REJECTED && latest.problem?.code !== 'IDEMPOTENCY_KEY_REUSED') await client.mend(old, body);
    else await begin(key, body);
    panel.pressed(mendable ? old : key);
  } catch (err) {
    say(element('form-error'), text('stored.failed'));
    console.error('the payment could not be kept, and was not sent', err);
  }
  pressing = false;
  await refresh();
  status.focus();
}

async function begin(key, body) {
  try {
    const { found } = await client.pay({ key, user: person.wallet, body });
    if (found === 'open') say(element('form-error'), text('form.open'));
  } catch (err) {
    if (!(err instanceof KeyTaken)) throw err;
    say(element('form-error'), text('form.used', status.about(err.payment)));
  }
}

/** askForChange keeps what is wanted instead, and has the old payment settled first. */
async function askForChange({ to, amount, note = '' }) {
  draft = { ...draft, fields: { to, amount, note, after: latest.key } };
  await client.keepDraft(draft);
  render();
  status.focus();
  await client.tryNow(latest.key);
}

/** pressedAgain counts presses of a button that is locked. */
function pressedAgain() {
  if (latest && (pressing || isOpen(latest))) panel.pressed(latest.key);
  if (page.sandbox) render();
}

/** signIn makes somebody the one who sends, or nobody. */
async function signIn(who) {
  person = who;
  session.keep(who);
  [draft, latest, receipt, settled, entries, changing] = [null, null, null, null, [], false];
  form.fill({});
  element('money').hidden = who === null;
  element('moves').hidden = who === null;
  say(element('balance'), text('balance.none'));
  form.offer(page.users.filter((user) => user.wallet !== who?.wallet), render);
  renderPerson();
  await client.start(who?.wallet ?? null).catch(noStore);
  if (who) {
    readWallet();
    client.prune(who.wallet, FORGET_AFTER).catch(() => {});
  }
  await refresh();
  for (const p of who ? await client.list(who.wallet).catch(() => []) : []) if (p.hold === 'sign-in') await client.resume(p.key);
}

function renderPerson() {
  if (page.users.length > 0) {
    element('user').value = person?.wallet ?? '';
    return;
  }
  element('signin').hidden = person !== null;
  element('signed').hidden = person === null;
  say(element('signed-as'), person?.wallet ?? '');
}

/** signInAgain is for when the server does not know the person any more. */
function signInAgain() {
  if (page.users.length > 0 || typeof window.khataToken === 'function') return client.resume(latest.key);
  const { wallet } = person;
  element('signin').hidden = false;
  element('signed').hidden = true;
  element('wallet').value = wallet;
  element('token').value = '';
  element('token').focus();
}

/** readWallet reads the balance and the latest movements. */
async function readWallet() {
  const who = person;
  const [wallet, list] = await Promise.all([getWallet(who), getEntries(who, READ_ENTRIES)]);
  if (who !== person) return;
  const refused = [401, 403, 404].includes(wallet.status);
  say(element('who-error'), wallet.status === 200 ? '' : text(refused ? 'you.refused' : 'you.away'));
  if (wallet.status === 200) {
    currency = wallet.body.currency;
    form.setCurrency(currency);
    const amount = (value) => formatAmount(value, currency, page.language);
    say(element('balance'), amount(wallet.body.available));
    say(element('held'), /^0(\.0*)?$/.test(wallet.body.held) ? '' : text('balance.held', { amount: amount(wallet.body.held) }));
  }
  if (list.status === 200) {
    ({ entries } = list.body);
    renderMoves();
  }
  render();
}

function renderMoves() {
  element('moves-none').hidden = entries.length > 0;
  element('moves-list').replaceChildren(...entries.slice(0, SHOWN_ENTRIES).map((entry) => {
    const out = entry.change.startsWith('-');
    const amount = (value) => formatAmount(value, currency, page.language);
    return make('li', { class: out ? 'out' : 'in' },
      make('span', { class: 'move-what' }, entry.note || text(out ? 'moves.out' : 'moves.in')),
      make('span', { class: 'move-amount' }, (out ? '' : '+') + amount(entry.change)),
      make('span', { class: 'move-when' }, when(entry.posted_at)),
      make('span', { class: 'move-balance' }, text('moves.balance', { amount: amount(entry.balance) })),
      make('span', { class: 'move-number' }, entry.transfer_id));
  }));
}

/** noStore says that nothing is sent, since nothing can be kept. */
function noStore(err) {
  console.error('the store has failed', err);
  status.show({ kind: 'rejected', title: text('store'), lines: [text('store.body')], choices: [] });
  form.enable(false, text('button'));
}

function setUpSignIn() {
  if (page.users.length > 0) {
    element('user').disabled = false;
    element('user').addEventListener('change', () => signIn(session.person(element('user').value)));
    return;
  }
  element('token').addEventListener('change', () => { element('wallet').value ||= session.walletOf(element('token').value); });
  element('signin').addEventListener('submit', (event) => {
    event.preventDefault();
    const [token, wallet] = [element('token').value.trim(), element('wallet').value.trim()];
    if (!token || !wallet) return element(token ? 'wallet' : 'token').focus();
    element('token').value = '';
    signIn({ token, wallet, name: wallet });
  });
  element('signout').addEventListener('click', () => signIn(null).then(() => element('token').focus()));
}

function setUp() {
  setUpSignIn();
  form.setCurrency(currency);
  form.setUp(renderForm);
  element('form').addEventListener('submit', press);
  // A locked button gives its clicks to what is around it.
  element('press').addEventListener('click', (event) => { if (event.target === element('press')) pressedAgain(); });
  if (page.sandbox) {
    network.setUp();
    panel.setUp(() => ({ latest, person }), readWallet);
  }
  client.subscribe(refresh);
  window.addEventListener('online', () => { client.wake().catch(noStore); refresh(); if (person) readWallet(); });
  window.addEventListener('offline', refresh);
  document.addEventListener('visibilitychange', () => { if (document.visibilityState === 'visible') refresh(); });
  // The browser may bring this page back as it was. The receipt was read by then, and the form may have been sent.
  window.addEventListener('pagehide', () => {
    receipt = null;
    render();
  });
  window.addEventListener('pageshow', (event) => {
    if (!event.persisted) return;
    if (person) client.start(person.wallet).catch(noStore);
    refresh();
    if (person) readWallet();
  });
}

setUp();
signIn((await session.embedded()) ?? session.restore());
