import { hostname } from 'node:os';
import type { LoadOptions } from '../../config/load-config.ts';
import { renderProblem } from '../../config/problem/problem.ts';
import type { Tracker } from '../../model/operation.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { MemoryServerFactory } from '../../upstream/transport/memory-transport.ts';
import type { App } from '../app.ts';
import type { ClusterConnection, Messenger } from '../cluster/cluster-connection.ts';
import { joinCluster } from '../cluster/open-cluster.ts';
import { openApp } from '../open-app.ts';
import { tellMisconfigured } from '../reload-report.ts';
import { Agents } from './agents.ts';
import { EmbeddedGateway } from './embedded-gateway.ts';
import type { ConfiguredServer, GatewayOptions, StoredServer } from './gateway-options.ts';
import { InProcessServer } from './in-process.ts';
import { LogOutlet } from './log-outlet.ts';
import { openError } from './open-errors.ts';
import { Overlay } from './overlay.ts';
import { ServerWatch } from './server-watch.ts';
import { Servers } from './servers.ts';

/** Without its cluster a node serves what it may, and goes on trying. */
const JOIN_MS = 3_000;

/** What `openNode` gives beside the options of a gateway. */
export interface NodeParts {
  readonly stored: readonly StoredServer[];
  readonly messenger: Messenger;
  readonly tracker: Tracker | null;
  readonly node: string | undefined;
  readonly publicPrincipal: string | undefined;
}

/** As `createGateway` and `openNode`, as the class with everything that this room itself needs. */
export async function openGateway(options: GatewayOptions, node?: NodeParts): Promise<EmbeddedGateway> {
  const log = new LogOutlet(options.logger ?? null, options.logLevel ?? 'info');
  const overlay = new Overlay();
  const watch = new ServerWatch(options.beforeAuthRequired);
  const memoryServers = new Map<string, MemoryServerFactory>();
  const { defined, inProcess } = sorted(options.servers ?? {});
  const opened = await openApp({
    load: loadOptions(options, defined),
    logger: log.logger,
    state: options.dataDir === undefined ? 'none' : 'data',
    joins: true,
    follow: options.follow ?? false,
    memoryServers,
    overlay: overlay.over,
    observer: watch,
    ...(node === undefined ? {} : { cluster: connectionOf(node, log.logger), tracker: node.tracker }),
  });
  if (!opened.ok) throw openError(opened.problem);
  const { app } = opened;
  log.logger.level = app.state.logLevel;
  tellWarnings(app);
  const servers = new Servers({ app, overlay, watch, memoryServers });
  try {
    await servers.addInProcess(inProcess);
    if (node !== undefined) await servers.addStored(node.stored);
  } catch (error) {
    await app.close('shutdown');
    throw error;
  }
  // Before the others hear of this node: they may ask it to drain.
  const gateway = new EmbeddedGateway({ app, overlay, servers, watch, log, agents: new Agents(app, overlay) });
  app.startServers();
  await app.rooms.cluster?.joined(JOIN_MS);
  return gateway;
}

function connectionOf({ messenger, node, publicPrincipal }: NodeParts, logger: Logger): ClusterConnection {
  const publicSubjects = { principal: publicPrincipal ?? null };
  return joinCluster(messenger, { node: node ?? hostname(), publicSubjects }, logger);
}

function sorted(servers: NonNullable<GatewayOptions['servers']>) {
  const defined: Record<string, ConfiguredServer> = {};
  const inProcess = new Map<string, InProcessServer>();
  for (const [name, definition] of Object.entries(servers)) {
    if (definition instanceof InProcessServer) inProcess.set(name, definition);
    else defined[name] = definition;
  }
  return { defined, inProcess };
}

function loadOptions(options: GatewayOptions, servers: Readonly<Record<string, ConfiguredServer>>): LoadOptions {
  const { config, dataDir, logLevel } = options;
  const files = typeof config === 'string' ? [config] : Array.isArray(config) ? (config as readonly string[]) : [];
  const inline = [];
  if (typeof config === 'object' && !Array.isArray(config) && Object.keys(config).length > 0) {
    inline.push({ label: '<createGateway config>', text: JSON.stringify(config, null, 2) });
  }
  if (Object.keys(servers).length > 0) {
    inline.push({ label: '<createGateway>', text: JSON.stringify({ servers }, null, 2) });
  }
  return {
    files,
    inline,
    cwd: options.cwd ?? process.cwd(),
    env: options.env ?? process.env,
    strict: options.strict ?? false,
    overrides: {
      ...(dataDir === undefined ? {} : { dataDir }),
      ...(logLevel === undefined ? {} : { logLevel }),
    },
  };
}

function tellWarnings({ rooms }: App): void {
  tellMisconfigured(rooms.loaded.misconfigured, rooms.logger);
  for (const warning of rooms.loaded.warnings) {
    rooms.logger.warn('config_warning', { code: warning.code, problem: renderProblem(warning) });
  }
}
