import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DownstreamRig } from '../../test/support/downstream-rig.ts';
import { send } from '../../test/support/raw-http.ts';

const OFFICIAL = 'io.modelcontextprotocol.registry/official';

test('the time of the last change depends on the server, and not on the `Host` of a request', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: 1_000_000 });
  const rig = await DownstreamRig.start();
  t.after(() => rig.close());
  const read = async (host: string) => {
    const address = `${host}:${rig.listener.port}`;
    const { json } = await send(rig.url('/v0.1/servers'), 'GET', { host: address });
    const [{ server, _meta }] = json.servers;
    assert.equal(server.remotes[0].url, `http://${address}/servers/memory/mcp`);
    return Date.parse(_meta[OFFICIAL].updatedAt);
  };
  assert.equal(await read('127.0.0.1'), 1_000_000);
  t.mock.timers.tick(5_000);
  assert.equal(await read('localhost'), 1_000_000);
  assert.equal(await read('127.0.0.1'), 1_000_000);
  const memory = { ...rig.desired.servers.get('memory')!, description: 'Another one' };
  rig.desired = { ...rig.desired, servers: new Map([['memory', memory]]) };
  assert.equal(await read('localhost'), 1_005_000);
});
