/** The form: what stands in it, whether it makes sense, and whether it is to be touched. */
import { element, make, page, say, text } from './page.js';
import { digits, formatAmount, parseAmount, scaleOf, symbolOf } from './payclient/amount.js';

const MOST_NOTE = 500;
const names = ['to', 'amount', 'note'];

/** fields gives what stands in the form. */
export function fields() {
  return Object.fromEntries(names.map((name) => [name, element(name).value]));
}

/** fill writes into the form. @param {{to?: string, amount?: string, note?: string}} values */
export function fill(values) {
  for (const name of names) element(name).value = values[name] ?? '';
  clearErrors();
}

/** fieldsOf gives the fields of a payment that was written down. */
export function fieldsOf(payment) {
  const { to, amount, note = '' } = JSON.parse(payment.body);
  return { to, amount, note };
}

/**
 * read reads the form as the payment API will, and shows what is wrong with it. It gives the exact body, or null.
 *
 * @param {string} from the payer's wallet
 * @param {string} currency
 * @returns {string|null}
 */
export function read(from, currency) {
  const { to, amount, note } = check(fields(), from, currency);
  const errors = { to: to.error, amount: amount.error, note: note.error };
  for (const name of names) setError(name, errors[name] ?? '');
  const wrong = names.find((name) => errors[name]);
  if (wrong) {
    element(wrong).focus();
    return null;
  }
  return bodyOf({ from, to: to.value, amount: amount.value, currency, note: note.value });
}

/** bodyOf writes the body once: from then on it is text. */
export function bodyOf({ from, to, amount, currency, note }) {
  return JSON.stringify({ from, to, amount, currency, ...(note ? { note } : {}) });
}

function check({ to, amount, note }, from, currency) {
  return { to: checkTo(to.trim(), from), amount: checkAmount(amount, currency), note: checkNote(note.trim()) };
}

function checkTo(typed, from) {
  if (typed === '') return { error: text('to.empty') };
  // Whoever types a name means the wallet of that name.
  const value = typed.startsWith('wallet:') ? typed : `wallet:${typed}`;
  if (!/^[\x21-\x7e]{8,128}$/.test(value)) return { error: text('to.form') };
  return value === from ? { error: text('to.self') } : { value };
}

function checkAmount(typed, currency) {
  const { value, error } = parseAmount(typed, currency);
  return error ? { error: text(`amount.${error}`, { currency, scale: digits(scaleOf(currency) ?? '', page.language) }) } : { value };
}

function checkNote(value) {
  return new TextEncoder().encode(value).length > MOST_NOTE ? { error: text('note.long') } : { value };
}

/** setError shows what is wrong with a field; '' is nothing. */
export function setError(name, words) {
  say(element(`${name}-error`), words);
  if (words) element(name).setAttribute('aria-invalid', 'true');
  else element(name).removeAttribute('aria-invalid');
}

export function clearErrors() {
  for (const name of names) setError(name, '');
  say(element('form-error'), '');
}

/** setUp gives the form its life. typed is called when something was changed in it. */
export function setUp(typed) {
  for (const name of names) {
    element(name).addEventListener('input', () => {
      setError(name, '');
      typed();
    });
  }
}

/** setCurrency says what amounts are in. */
export function setCurrency(currency) {
  say(element('symbol'), symbolOf(currency).trim());
  say(element('amount-help'), text('amount.help', { currency }));
}

/** offer lists people to pay, of a sandbox. */
export function offer(people, typed) {
  element('people').replaceChildren(...people.map(({ name, wallet }) => {
    const button = make('button', { type: 'button', class: 'chip' }, name);
    button.addEventListener('click', () => {
      element('to').value = wallet;
      setError('to', '');
      typed();
      element('amount').focus();
    });
    return button;
  }));
}

/** amountTyped gives the amount in the form as people read it, or '' if it is none. */
export function amountTyped(currency) {
  const { value } = parseAmount(element('amount').value, currency);
  return value ? formatAmount(value, currency, page.language) : '';
}

/** enable lets the form be touched, or not; and says what the button does. */
export function enable(on, label) {
  element('fields').disabled = !on;
  element('button').disabled = !on;
  say(element('button'), label);
}
