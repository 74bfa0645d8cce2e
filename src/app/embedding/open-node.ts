import { MemorySharedLog } from '../../bus/memory/memory-shared-log.ts';
import { MemorySharedState } from '../../bus/memory/memory-shared-state.ts';
import { MemoryHub } from '../../bus/memory/memory-wire.ts';
import { loadConfig } from '../../config/load-config.ts';
import { systemClock } from '../../model/clock.ts';
import { systemRandom } from '../../model/random.ts';
import type { Messenger } from '../cluster/cluster-connection.ts';
import { openNats } from '../cluster/open-cluster.ts';
import type { Gateway } from './gateway-api.ts';
import type { GatewayConfig, NodeOptions, ServerStore, StoredServer } from './gateway-options.ts';
import { LogOutlet, type LogSink } from './log-outlet.ts';
import { ConfigError } from './open-errors.ts';
import { openGateway } from './open-gateway.ts';

/**
 * Opens a node of a cluster inside this program, with a store and a messenger of the program (S0.12). Serves the servers of
 * the store on the public subjects too. Reports and skips invalid definitions and servers that do not start. Rejects with the
 * error of a store that fails. Of a `cluster` in `config` it uses only `store`.
 */
export async function openNode(options: NodeOptions): Promise<Gateway> {
  const { store, messenger } = options;
  try {
    return (await openGateway(options, { ...options, stored: await allServers(store) })).gateway;
  } catch (error) {
    messenger.log?.close();
    await messenger.wire.close();
    throw error;
  }
}

async function allServers(store: ServerStore): Promise<readonly StoredServer[]> {
  const servers: StoredServer[] = [];
  const seen = new Set<string>();
  let page = await store.list(null);
  for (;;) {
    for (const server of page.servers) servers.push(server);
    const { next } = page;
    if (next === null) return servers;
    if (seen.has(next)) throw new Error(`the store does not come to an end: it gave the cursor ${next} twice`);
    seen.add(next);
    page = await store.list(next);
  }
}

/** The settings of `cluster` in a configuration that say how to reach NATS, and the cluster's secret. */
export type NatsMessengerSettings = Pick<
  NonNullable<GatewayConfig['cluster']>,
  | 'nats'
  | 'name'
  | 'secret'
  | 'previousSecret'
  | 'node'
  | 'user'
  | 'password'
  | 'token'
  | 'nkey'
  | 'credentials'
  | 'tls'
  | 'streamCopiesBytes'
>;

/**
 * Connects a messenger to NATS. Resolves after the first attempt, and retries if that failed. Rejects with ConfigError.
 * `logger` receives the log of the connection.
 */
export async function natsMessenger(cluster: NatsMessengerSettings, logger: LogSink | null = null): Promise<Messenger> {
  const inline = [{ label: '<natsMessenger>', text: JSON.stringify({ cluster }, null, 2) }];
  const loaded = await loadConfig({ inline, cwd: process.cwd(), env: process.env });
  if (!loaded.ok) throw new ConfigError(loaded.problems);
  const log = new LogOutlet(logger, 'info').logger;
  for (const secret of loaded.secrets) log.addSecret(secret);
  return openNats(loaded.state.cluster!, log);
}

/** Returns a function that creates the messenger of each further node in this process. */
export function memoryMessengers(): () => Messenger {
  const hub = new MemoryHub();
  const state = new MemorySharedState(systemClock);
  const log = new MemorySharedLog();
  const secrets = [systemRandom.hex(32)];
  return () => ({ wire: hub.open(), state, log, secrets });
}
