import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Agent, ListenSettings } from '../model/desired-state.ts';
import { isLoopbackAddress, isLoopbackHost } from '../model/host-address.ts';
import { Secret } from '../model/secret.ts';
import { AddressSet, isWildcardAddress } from './address.ts';
import { bindProblem } from './listener/listen-error.ts';

describe('addresses', () => {
  test('loopback is recognised by the address alone', () => {
    for (const yes of ['127.0.0.1', '127.255.255.254', '::1', '[::1]', '0:0:0:0:0:0:0:1', '::ffff:127.0.0.1']) {
      assert.equal(isLoopbackAddress(yes), true, yes);
    }
    for (const no of ['', 'localhost', '128.0.0.1', '127.1', '2130706433', '0x7f.0.0.1', '127.0.0.1.evil.example']) {
      assert.equal(isLoopbackAddress(no), false, no);
    }
    for (const no of ['0.0.0.0', '::', '::2', '10.0.0.1', '::ffff:10.0.0.1']) {
      assert.equal(isLoopbackAddress(no), false, no);
    }
    for (const yes of ['localhost', 'LOCALHOST', '127.0.0.1']) assert.equal(isLoopbackHost(yes), true, yes);
    for (const no of ['localhost.', 'localhost.evil.example', 'evil-localhost', 'xlocalhost']) {
      assert.equal(isLoopbackHost(no), false, no);
    }
  });

  test('wildcards cover every interface', () => {
    for (const yes of ['', '0.0.0.0', '::', '[::]', '0:0:0:0:0:0:0:0']) assert.equal(isWildcardAddress(yes), true, yes);
    for (const no of ['127.0.0.1', '::1', 'localhost']) assert.equal(isWildcardAddress(no), false, no);
  });

  test('address sets match addresses and blocks, mapped ones too', () => {
    const set = new AddressSet(['10.0.0.0/8', '192.168.1.7', 'fd00::/8', '::1']);
    for (const yes of ['10.0.0.1', '10.255.255.255', '192.168.1.7', '::ffff:10.9.9.9', 'fd12::1', '::1']) {
      assert.equal(set.has(yes), true, yes);
    }
    for (const no of ['11.0.0.1', '192.168.1.8', 'fe80::1', '::2', '', 'localhost'])
      assert.equal(set.has(no), false, no);
    for (const bad of ['10.0.0.0/33', '10.0.0/8', 'host', '10.0.0.0/', '10.0.0.0/-1', '::/129', '10.0.0.0/08']) {
      assert.throws(() => new AddressSet([bad]), TypeError, bad);
    }
    assert.equal(new AddressSet([]).has('127.0.0.1'), false);
  });
});

describe('bind problem', () => {
  const tls = { certFile: 'c', keyFile: 'k' };
  const ada = { name: 'ada', key: new Secret('key-of-ada-key-of-ada'), servers: null };

  function problem(
    listen: Partial<ListenSettings>,
    agents: readonly Agent[],
    unknownCallers: 'refuse' | 'allow' = 'refuse',
  ): string | null {
    const settings: ListenSettings = {
      ...{
        host: '0.0.0.0',
        port: 0,
        tls: null,
        publicUrl: null,
        trustedProxies: [],
        allowedHosts: [],
        allowedOrigins: [],
        anonymousRegistry: false,
      },
      ...{ insecure: false, maxBodyBytes: 1, maxConnections: 1 },
      ...listen,
    };
    const byName = new Map(agents.map((agent) => [agent.name, agent]));
    return bindProblem({ listen: settings, agents: byName, unknownCallers });
  }

  test('loopback, or authentication with encryption, or permission of the operator', () => {
    for (const host of ['127.0.0.1', '::1', 'localhost', '127.0.0.2']) assert.equal(problem({ host }, []), null, host);
    assert.equal(problem({ tls }, [ada]), null);
    assert.equal(problem({ trustedProxies: ['10.0.0.1'] }, [ada]), null);
    assert.equal(problem({ insecure: true }, []), null);
  });

  test('anything less is refused with what is missing', () => {
    assert.match(problem({}, [])!, /0\.0\.0\.0.*without authentication.*and without encryption.*--insecure/);
    assert.match(problem({ tls }, [])!, /without authentication/);
    assert.doesNotMatch(problem({ tls }, [])!, /encryption/);
    assert.match(problem({ host: '::' }, [ada])!, /without encryption/);
    assert.match(problem({ host: 'box.local' }, [ada])!, /box\.local/);
  });

  test('agents do not count as authentication if unknown callers get everything too', () => {
    assert.match(problem({ tls }, [ada], 'allow')!, /without authentication/);
  });
});
