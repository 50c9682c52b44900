import test from 'node:test';
import assert from 'node:assert/strict';
import { formatAmount, parseAmount } from '../src/amount.js';
import { newKey } from '../src/key.js';

test('parseAmount', () => {
  for (const [text, want] of Object.entries({
    500: '500', '500.00': '500.00', '৫০০': '500', '৳৫০০.৫০': '500.50', ' 1,23,456.5 ': '123456.5', '123,456': '123456', '1,000': '1000', '১,০০,০০০': '100000',
    '0.5': '0.5', '৳ 20': '20',
    '': 'empty', '৳': 'empty', 0: 'zero', '0.00': 'zero', '-5': 'form', '+5': 'form', '1e3': 'form', '05': 'form', '.5': 'form', '5.': 'form', '1,5': 'form', '1,50': 'form',
    '12,34': 'form', '1,2,3': 'form', '1,000,00': 'form', five: 'form', '5.001': 'decimals', ['9'.repeat(39)]: 'digits', '٥': 'form', '<b>': 'form',
  })) {
    const got = parseAmount(text, 'BDT');
    assert.equal(got.value ?? got.error, want, text);
  }
  assert.deepEqual(parseAmount('5.5', 'JPY'), { error: 'decimals' });
  assert.deepEqual(parseAmount('5.12345', 'XAU'), { value: '5.12345' });
});

test('formatAmount', () => {
  for (const [amount, language, want] of [
    ['500.00', 'en', '৳500.00'], ['500', 'en', '৳500.00'], ['123456.5', 'en', '৳1,23,456.50'], ['12345678', 'bn', '৳১,২৩,৪৫,৬৭৮.০০'], ['-1000', 'en', '\u2212৳1,000.00'],
    ['99999999999999999999.01', 'en', '৳9,99,99,99,99,99,99,99,99,999.01'], ['0', 'bn', '৳০.০০'],
  ]) assert.equal(formatAmount(amount, 'BDT', language), want);
  assert.equal(formatAmount('5', 'JPY'), 'JPY\u00a05');
});

test('newKey is as the payment API wants it, also where there is no randomUUID', () => {
  const { randomUUID } = crypto;
  for (const is of [randomUUID, undefined]) {
    Object.defineProperty(crypto, 'randomUUID', { value: is, configurable: true, writable: true });
    const keys = new Set(Array.from({ length: 100 }, newKey));
    assert.equal(keys.size, 100);
    for (const key of keys) assert.match(key, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  }
  Object.defineProperty(crypto, 'randomUUID', { value: randomUUID, configurable: true, writable: true });
});
