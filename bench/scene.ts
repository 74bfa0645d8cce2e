import { join } from 'node:path';
import { TOOLS_EACH, WHOLE_LIST } from './sizes.ts';
import { Child } from './targets/child.ts';
import type { Scene } from './targets/target.ts';
import { BIG_TOOLS } from './upstream/answers.ts';

const UPSTREAM = join(import.meta.dirname, 'upstream');

/** The measured servers, each a process of its own, started once for a whole run. */
export class Servers {
  readonly scene: Scene;
  readonly #children: readonly Child[];

  private constructor(scene: Scene, children: readonly Child[]) {
    this.scene = scene;
    this.#children = children;
  }

  static async start(): Promise<Servers> {
    const runs = [
      ['stateful', 1 + BIG_TOOLS.length],
      ['stateless', 1 + BIG_TOOLS.length],
      ['stateful', WHOLE_LIST],
      ['stateful', TOOLS_EACH],
    ].map(([era, tools]) => new Child([process.execPath, join(UPSTREAM, 'http.ts'), String(era), String(tools)]));
    const ports = await Promise.all(runs.map((child) => child.firstLine()));
    const [statefulUrl, statelessUrl, wholeListUrl, fleetUrl] = ports.map((port) => `http://127.0.0.1:${port}/mcp`);
    const scene: Scene = {
      statefulUrl: statefulUrl!,
      statelessUrl: statelessUrl!,
      wholeListUrl: wholeListUrl!,
      fleetUrl: fleetUrl!,
      stdioCommand: [process.execPath, join(UPSTREAM, 'stdio.ts'), String(1 + BIG_TOOLS.length)],
    };
    return new Servers(scene, runs);
  }

  async stop(): Promise<void> {
    await Promise.all(this.#children.map((child) => child.stop()));
  }
}
