import assert from 'node:assert/strict';
import { test } from 'node:test';
import { serverNamed } from '../../../test/support/cluster-bench.ts';
import { foreignServer, type ServerText, serverText } from './foreign-server.ts';

test('a node sends how a server separates its callers as the member `apart`, which earlier versions read', () => {
  const callerSeparation = { credentials: true, headers: { 'x-team': 'X-Tenant' } };
  const json = JSON.stringify(serverText(serverNamed('a', { callerSeparation }), false));
  const text = JSON.parse(json) as ServerText & { readonly callerSeparation?: unknown };
  assert.deepEqual([text.apart, text.callerSeparation], [callerSeparation, undefined]);
  assert.deepEqual(foreignServer(text).callerSeparation, callerSeparation);
  assert.equal('callerSeparation' in foreignServer(serverText(serverNamed('b'), false)), false);
});
