import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ANONYMOUS, type ClientProfile } from '../../model/client-profile.ts';
import { answer, type Outcome } from '../../model/outcome.ts';
import { request, result } from '../../protocol/compose.ts';
import { ClientExchange } from './client-exchange.ts';

const CLIENT: ClientProfile = {
  principal: ANONYMOUS,
  sessionId: null,
  revision: '2026-07-28',
  capabilities: '{}',
  fingerprint: '{}',
  info: null,
  logLevel: null,
  handle: null,
};

test('a concluded exchange is answered once, and reports its end to later callers', () => {
  const reported: string[] = [];
  const exchange = new ClientExchange(request('subscriptions/listen', '1', '{}', 'stateless'), CLIENT, {
    canAsk: false,
    notify: () => void reported.push('notified'),
    askFor: () => Promise.reject(new Error('not asked')),
    answer: () => void reported.push('answered'),
    cancelled: () => void reported.push('cancelled'),
  });
  const outcome: Outcome = answer(result('1', '{}', 'stateless'));
  exchange.conclude(outcome, 'the gateway is stopping');
  assert.equal(exchange.cancelled, 'the gateway is stopping');
  exchange.finish(outcome);
  exchange.cancel('too late');
  assert.deepEqual(reported, ['answered']);
});
