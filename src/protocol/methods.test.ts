import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  isCacheable,
  isClientRequest,
  isRemoved,
  LIST_METHODS,
  listMethod,
  listOf,
  listsChangedBy,
  nameMember,
} from './methods.ts';

test('methods belong to their eras', () => {
  assert.ok(isClientRequest('initialize', 'stateful') && !isClientRequest('initialize', 'stateless'));
  assert.ok(!isClientRequest('server/discover', 'stateful') && isClientRequest('server/discover', 'stateless'));
  for (const method of ['initialize', 'ping', 'logging/setLevel', 'resources/subscribe']) assert.ok(isRemoved(method));
  for (const method of ['ping', 'server/discover', 'tools/call']) assert.ok(isClientRequest(method));
  for (const method of ['roots/list', 'skills/list', 'constructor']) assert.ok(!isClientRequest(method));
  assert.ok(!isRemoved('tools/call'));
});

test('names that every object inherits are no methods', () => {
  for (const name of ['__proto__', 'constructor', 'toString', 'hasOwnProperty']) {
    assert.equal(isClientRequest(name, 'stateless'), false);
    assert.equal(nameMember(name), null);
    assert.equal(listMethod(name), null);
    assert.equal(isRemoved(name), false);
  }
});

test('lists, headers and cache hints depend on the method', () => {
  assert.equal(nameMember('resources/read'), 'uri');
  assert.equal(nameMember('tools/list'), null);
  assert.ok(isCacheable('resources/read') && !isCacheable('tools/call'));
  for (const list of LIST_METHODS) assert.equal(listOf(list.kind), listMethod(list.method));
  assert.deepEqual(listsChangedBy('notifications/resources/list_changed'), ['resources', 'resourceTemplates']);
  assert.deepEqual(listsChangedBy('notifications/message'), []);
});
