import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NodeProcess, until } from '../support/cluster-processes.ts';
import { NatsServer, type NatsServerOptions } from '../support/nats-server.ts';

const USER = 'user: user, password: word';
const lacks: Record<string, { readonly options: NatsServerOptions; readonly said: RegExp }> = {
  'JetStream is off': { options: { jetStream: false }, said: /JetStream is off.*start nats-server with -js/ },
  'JetStream is off for the account': {
    options: {
      config: `accounts { own { users: [{ ${USER} }] }, other { jetstream: enabled, users: [{ user: x, password: x }] } }`,
    },
    said: /JetStream is off for the account of these credentials.*jetstream: enabled/,
  },
  'JetStream may not be asked for streams': {
    options: {
      config: `authorization { users: [{ ${USER}, permissions: { publish: ["trunkline.>", "$JS.API.INFO"] } }] }`,
    },
    said: /may not publish to \$JS\.API\.STREAM\./,
  },
};

for (const [name, { options, said }] of Object.entries(lacks)) {
  test(`S0.21 ${name}: a node reports it at start, and at /health`, async () => {
    const nats = await NatsServer.start(options);
    const url = nats.url.replace('//', options.config === undefined ? '//' : '//user:word@');
    const node = await NodeProcess.start('a', {}, {}, { nats: url });
    try {
      const lines = (): string[] => node.stderr.split('\n').filter((line) => said.test(line));
      await until(() => lines().length > 0, `the node to say what it lacks:\n${node.stderr}`);
      assert.match(lines()[0]!, /bus_server_lacks|node_without_lease|store_not_reached/);
      await until(async () => said.test(JSON.stringify(await node.health())), '/health to report it');
      await until(() => node.ready(), 'the node to serve servers without an owner, as no other node can do more');
      assert.ok(!node.stderr.includes('word@'), 'nothing of the credentials is shown');
    } finally {
      node.kill('SIGINT');
      await node.exited;
      await node.gateway.dispose();
      await nats[Symbol.asyncDispose]();
    }
  });
}
