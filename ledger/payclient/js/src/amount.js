/** Amounts as people in South Asia write them. All of it is text: a number of JavaScript would round. */

/** Decimals of currencies; of one that is not here the server is the judge. */
const scales = { BDT: 2, INR: 2, PKR: 2, NPR: 2, LKR: 2, USD: 2, EUR: 2, GBP: 2, JPY: 0, KWD: 3 };
const symbols = { BDT: '৳', INR: '₹' };
const bengali = '০১২৩৪৫৬৭৮৯';
const MOST_DIGITS = 38;

/** @param {string} currency @returns {number|undefined} */
export function scaleOf(currency) {
  return scales[currency];
}

/** symbolOf is the sign of a currency, or its code and a space. @param {string} currency */
export function symbolOf(currency) {
  return symbols[currency] ?? `${currency}\u00a0`;
}

/**
 * parseAmount reads what a person has typed: digits of either script, with or without the currency's sign and commas where commas go.
 * What could be two amounts is none. The value is in the form that the payment API takes.
 *
 * @param {string} text
 * @param {string} currency
 * @returns {{value: string, error?: undefined}|{value?: undefined, error: 'empty'|'form'|'zero'|'decimals'|'digits'}}
 */
export function parseAmount(text, currency) {
  let plain = latin(text).replace(/[\s\u00a0\u200b-\u200d]/g, '');
  const symbol = symbolOf(currency).trim();
  if (plain.startsWith(symbol)) plain = plain.slice(symbol.length);
  if (plain === '') return { error: 'empty' };
  // 1,00,000 as here or 100,000 as elsewhere; a comma anywhere else may have been meant as a point.
  if (/^(\d{1,2}(,\d{2})*|\d{1,3}(,\d{3})*),\d{3}(\.\d+)?$/.test(plain)) plain = plain.replaceAll(',', '');
  if (!/^(0|[1-9]\d*)(\.\d+)?$/.test(plain)) return { error: 'form' };
  if (plain.replace('.', '').length > MOST_DIGITS) return { error: 'digits' };
  if (/^[0.]+$/.test(plain)) return { error: 'zero' };
  const scale = scaleOf(currency);
  const decimals = plain.split('.')[1]?.length ?? 0;
  if (scale !== undefined && decimals > scale) return { error: 'decimals' };
  return { value: plain };
}

/**
 * formatAmount writes an amount of the API: ৳1,23,456.50, or ৳১,২৩,৪৫৬.৫০ in Bengali.
 *
 * @param {string} amount
 * @param {string} currency
 * @param {string} [language]
 */
export function formatAmount(amount, currency, language = 'en') {
  const sign = amount.startsWith('-') ? '\u2212' : '';
  const [whole, fraction = ''] = amount.replace(/^-/, '').split('.');
  const decimals = fraction.padEnd(scaleOf(currency) ?? 0, '0');
  const text = group(whole) + (decimals ? `.${decimals}` : '');
  return sign + symbolOf(currency) + digits(text, language);
}

/** group puts commas before the last three digits, and then before every two. */
function group(whole) {
  const last = whole.slice(-3);
  const rest = whole.slice(0, -3).replace(/\B(?=(\d{2})+(?!\d))/g, ',');
  return rest ? `${rest},${last}` : last;
}

/** digits writes the digits of a text in the language's script. @param {string|number} text @param {string} language */
export function digits(text, language) {
  return language === 'bn' ? String(text).replace(/\d/g, (d) => bengali[d]) : String(text);
}

/** latin is the other way round. @param {string} text */
export function latin(text) {
  return text.replace(/[০-৯]/g, (d) => bengali.indexOf(d));
}
