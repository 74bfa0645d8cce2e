import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { revealed } from '../../model/secret.ts';
import { loadConfig } from '../load-config.ts';

let folder = '';
before(() => {
  folder = mkdtempSync(join(tmpdir(), 'tl-docker-'));
});
after(() => rmSync(folder, { recursive: true }));

async function load(server: unknown) {
  writeFileSync(join(folder, 'trunkline.json'), JSON.stringify({ mcpServers: { one: server } }));
  return loadConfig({ files: ['trunkline.json'], cwd: folder, env: { HOME: '/home/me', TAG: '3' }, strict: true });
}

async function read(server: unknown) {
  const result = await load(server);
  assert.ok(result.ok, result.ok ? '' : result.problems.map(({ message }) => message).join());
  const { isolation, transport } = result.state.servers.get('one')!;
  assert.equal(transport.type, 'docker');
  const { env, engine, target } = transport;
  return { isolation, env: { ...revealed(env) }, engine, target, warnings: result.warnings.map(({ code }) => code) };
}

test('S2.22 check:B2 an image with all its options', async () => {
  const docker = {
    image: 'team/server:${TAG}',
    engine: 'unix:///run/podman/podman.sock',
    network: 'none',
    volumes: ['./data:/data:ro', '~/x:/x', 'named:/y'],
    user: '1000',
    readOnly: true,
    memory: '512m',
    cpus: 0.5,
    pids: 64,
    labels: { a: 'b' },
  };
  const found = await read({ docker, args: ['--fast'], command: 'server', cwd: '/data', env: { A: '${TAG}' } });
  assert.deepEqual(found, {
    isolation: null,
    env: { A: '3' },
    engine: 'unix:///run/podman/podman.sock',
    target: {
      image: {
        name: 'team/server:3',
        command: ['--fast'],
        entrypoint: ['server'],
        cwd: '/data',
        user: '1000',
        network: 'none',
        volumes: [`${folder}/data:/data:ro`, '/home/me/x:/x', 'named:/y'],
        readOnly: true,
        labels: { a: 'b' },
        limits: { memoryBytes: 512 * 1024 * 1024, cpus: 0.5, pids: 64 },
      },
    },
    warnings: [],
  });
});

test('S2.22 check:B2 a running container, whose streams all clients share', async () => {
  const found = await read({ type: 'docker', docker: { container: 'memory-1' }, env: { A: 'b' } });
  assert.deepEqual(found.target, { container: 'memory-1' });
  assert.deepEqual([found.isolation, found.warnings], ['shared', ['TL1307']]);
});

test('S2.22 an invalid or contradictory definition of a container is refused', async () => {
  const image = { image: 'a' };
  const cases: readonly (readonly [unknown, string])[] = [
    [{ type: 'docker', command: 'x' }, 'TL1413'],
    [{ docker: {} }, 'TL1413'],
    [{ docker: { image: 'a b' } }, 'TL1413'],
    [{ docker: { container: '../json' } }, 'TL1413'],
    [{ docker: { ...image, volumes: ['nowhere'] } }, 'TL1413'],
    [{ docker: { ...image, memory: 'much' } }, 'TL1413'],
    [{ docker: image, url: 'https://x.example/' }, 'TL1306'],
    [{ docker: image, ssh: 'h', command: 'x' }, 'TL1306'],
    [{ docker: { container: 'a' }, isolation: 'session' }, 'TL1306'],
  ];
  for (const [server, code] of cases) {
    const result = await load(server);
    assert.deepEqual(result.ok ? [] : result.problems.map((problem) => problem.code), [code], JSON.stringify(server));
  }
});
