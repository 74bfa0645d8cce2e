import { hostname } from 'node:os';
import type { LoadOptions } from '../../config/load-config.ts';
import { logMisconfigured, logWarnings } from '../../registry/reload-report.ts';
import type { MemoryServerFactory } from '../../upstream/transport/memory-transport.ts';
import { joinCluster } from '../cluster/open-cluster.ts';
import type { Components } from '../components.ts';
import { openApp } from '../open-app.ts';
import { Agents } from './agents.ts';
import { embeddedGateway } from './embedded-gateway.ts';
import type { Gateway } from './gateway-api.ts';
import type { ConfiguredServer, GatewayOptions, NodeOptions, StoredServer } from './gateway-options.ts';
import { InProcessServer } from './in-process.ts';
import { LogOutlet } from './log-outlet.ts';
import { openError } from './open-errors.ts';
import { Overlay } from './overlay.ts';
import { ServerWatch } from './server-watch.ts';
import { Servers } from './servers.ts';

/** The longest wait for the lease; without it a node serves calls that need no owner, and retries. */
const JOIN_MS = 3_000;

/** The options that `openNode` adds to those of a gateway. */
type NodeParts = Pick<NodeOptions, 'messenger' | 'tracker' | 'node' | 'publicPrincipal'> & {
  readonly stored: readonly StoredServer[];
};

/**
 * Opens a gateway inside this program (S2.25). Resolves when it accepts calls; eager servers may still be starting
 * (`Gateway.ready` waits for them). Rejects with ConfigError, OpenError, or GatewayError for the name of an in-process
 * server, and then leaves nothing behind.
 *
 * ```ts
 * await using gateway = await createGateway({ servers: { files: { command: 'npx', args: ['-y', '…'] } } });
 * const result = await gateway.callTool('files__read_text_file', { path: 'README.md' });
 * ```
 */
export async function createGateway(options: GatewayOptions = {}): Promise<Gateway> {
  return (await openGateway(options)).gateway;
}

/** As `createGateway` and `openNode`, but also returns the components of the gateway. */
export async function openGateway(
  options: GatewayOptions,
  node?: NodeParts,
): Promise<{ readonly gateway: Gateway; readonly components: Components }> {
  const log = new LogOutlet(options.logger ?? null, options.logLevel ?? 'info');
  const overlay = new Overlay();
  const watch = new ServerWatch(options.beforeAuthRequired);
  const memoryServers = new Map<string, MemoryServerFactory>();
  const { defined, inProcess } = sorted(options.servers ?? {});
  const nodeOptions = node && {
    cluster: joinCluster(
      node.messenger,
      { node: node.node ?? hostname(), publicSubjects: { principal: node.publicPrincipal ?? null } },
      log.logger,
    ),
    tracker: node.tracker ?? null,
  };
  const opened = await openApp({
    load: loadOptions(options, defined),
    logger: log.logger,
    state: options.dataDir === undefined ? 'none' : 'data',
    joins: true,
    follow: options.follow ?? false,
    memoryServers,
    overlay: overlay.apply,
    observer: watch,
    ...nodeOptions,
  });
  if (!opened.ok) throw openError(opened.problem);
  const { app } = opened;
  log.logger.level = app.state.logLevel;
  logMisconfigured(app.components.loaded.misconfigured, log.logger);
  logWarnings(app.components.loaded.warnings, log.logger);
  const servers = new Servers({ app, overlay, watch, memoryServers });
  try {
    await servers.addInProcess(inProcess);
    if (node !== undefined) await servers.addStored(node.stored);
  } catch (error) {
    await app.close('shutdown');
    throw error;
  }
  // Before other nodes learn of this node: they may drain it.
  const gateway = embeddedGateway({ app, overlay, servers, watch, log, agents: new Agents(app, overlay) });
  app.startServers();
  await app.components.cluster?.joined(JOIN_MS);
  return { gateway, components: app.components };
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
    overrides: { dataDir, logLevel },
  };
}
