import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { App } from '../../src/app/app.ts';
import { listenerSettings } from '../../src/app/listener-settings.ts';
import { openApp } from '../../src/app/open-app.ts';
import { Listener } from '../../src/http/listener/listener.ts';
import { StreamWheel } from '../../src/http/sse/stream-wheel.ts';
import { Logger } from '../../src/telemetry/logger.ts';
import { until } from './fault-bench.ts';

/** A whole gateway in this process, with a shorter timeout for clients that do not read. */
export class InProcessGateway {
  readonly app: App;
  readonly wheel: StreamWheel;
  readonly #listener: Listener;
  url = '';

  static async start(folder: string, config: object, stallMs: number): Promise<InProcessGateway> {
    const file = join(folder, 'trunkline.json');
    writeFileSync(file, JSON.stringify(config));
    const load = { files: [file], cwd: folder, env: process.env };
    const opened = await openApp({ load, logger: Logger.silent(), state: 'none', follow: false });
    if (!opened.ok) throw new Error(JSON.stringify(opened.problem));
    const gateway = new InProcessGateway(opened.app, stallMs);
    const { host, port } = await gateway.#listener.listen();
    gateway.url = `http://${host}:${port}/mcp`;
    opened.app.startServers();
    const { upstreams } = opened.app.components;
    await until('all servers run', () => upstreams.statuses().every(({ startedInMs }) => startedInMs !== null));
    return gateway;
  }

  private constructor(app: App, stallMs: number) {
    this.app = app;
    this.wheel = new StreamWheel({ tickMs: stallMs / 10, stallMs });
    const settings = { ...listenerSettings(app.state), port: 0 };
    this.#listener = new Listener({ settings, log: Logger.silent(), wheel: this.wheel, stallMs });
    app.components.downstream.register(this.#listener.routes);
  }

  async close(): Promise<void> {
    await this.#listener.close();
    await this.app.close('interrupt');
  }
}
