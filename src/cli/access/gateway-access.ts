import type { App } from '../../app/app.ts';
import { openApp } from '../../app/open-app.ts';
import { controlPlane, type ToolView } from '../../app/plane.ts';
import { processLogger } from '../../app/process-logger.ts';
import type { ServerStatus } from '../../model/server-state.ts';
import type { CommandInput } from '../command-input.ts';
import { cannotOpen } from '../exit-code.ts';
import { loadOptions } from '../sources.ts';
import { isSettled } from '../start-screen.ts';
import { ControlClient } from './control-client.ts';
import { findRunning } from './find-running.ts';

type GatewayFacts = ReturnType<App['facts']>;

/** What the commands ask of a gateway, whether it runs elsewhere or was started for the command. */
export interface GatewayAccess {
  /** One line for people: which gateway this is. */
  readonly label: string;
  statuses(): Promise<readonly ServerStatus[]>;
  facts(): Promise<Pick<GatewayFacts, 'configProblem' | 'desiredProblems' | 'processes'>>;
  tools(): Promise<readonly ToolView[]>;
  /** JSON text with `outcome`, and `result` or `error` as they came. */
  call(server: string, tool: string, argumentsJson: string): Promise<string>;
  close(): Promise<void>;
}

const SETTLE_MS = 60_000;
const POLL_MS = 25;

/**
 * The running gateway's control API, or, where none runs (none for the file that was named, if one was), a gateway of
 * our own for as long as the command takes.
 */
export async function accessGateway(input: CommandInput): Promise<GatewayAccess> {
  const { flags, terminal } = input;
  const running = await findRunning(input);
  if (running !== null) return new RemoteAccess(new ControlClient(running), running.instance.mcpUrl);
  const logger = processLogger({ level: flags.logLevel ?? 'error', json: flags.json === true, write: terminal.err });
  const opened = await openApp({ load: loadOptions(input), logger, state: 'look', follow: false });
  if (!opened.ok) throw cannotOpen(opened.problem, terminal.cwd);
  return new OwnAccess(opened.app);
}

class RemoteAccess implements GatewayAccess {
  readonly label: string;
  readonly #client: ControlClient;

  constructor(client: ControlClient, mcpUrl: string) {
    this.#client = client;
    this.label = `running at ${mcpUrl}`;
  }

  async statuses(): Promise<readonly ServerStatus[]> {
    return (JSON.parse(await this.#client.get('/api/v1/servers')) as { servers: ServerStatus[] }).servers;
  }

  async facts(): Promise<GatewayFacts> {
    return JSON.parse(await this.#client.get('/api/v1/gateway')) as GatewayFacts;
  }

  async tools(): Promise<readonly ToolView[]> {
    const { tools } = JSON.parse(await this.#client.get('/api/v1/tools')) as {
      tools: (Omit<ToolView, 'definition'> & { definition: object })[];
    };
    return tools.map((tool) => ({ ...tool, definition: JSON.stringify(tool.definition) }));
  }

  call(server: string, tool: string, argumentsJson: string): Promise<string> {
    const path = `/api/v1/servers/${encodeURIComponent(server)}/call?tool=${encodeURIComponent(tool)}`;
    return this.#client.post(path, argumentsJson);
  }

  async close(): Promise<void> {}
}

class OwnAccess implements GatewayAccess {
  readonly label = 'no gateway runs for it; servers were started for this command';
  readonly #app: App;
  readonly #plane: ReturnType<typeof controlPlane>;

  constructor(app: App) {
    this.#app = app;
    this.#plane = controlPlane(app.rooms, app);
    app.startServers();
  }

  /** Waits until every server that starts by itself has come up or failed. */
  async statuses(): Promise<readonly ServerStatus[]> {
    const { upstreams } = this.#app.rooms;
    const end = performance.now() + SETTLE_MS;
    for (;;) {
      const statuses = upstreams.statuses();
      const waiting = statuses.some(
        (status) => this.#app.state.servers.get(status.name)?.start !== 'lazy' && !isSettled(status),
      );
      if (!waiting || performance.now() > end) return statuses;
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }

  async facts(): Promise<GatewayFacts> {
    return this.#app.facts();
  }

  async tools(): Promise<readonly ToolView[]> {
    await this.statuses();
    return this.#plane.tools(null);
  }

  async call(server: string, tool: string, argumentsJson: string): Promise<string> {
    return (await this.#plane.callTool(server, tool, Buffer.from(argumentsJson))).toString();
  }

  close(): Promise<void> {
    return this.#app.close('shutdown');
  }
}
