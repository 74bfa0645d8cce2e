import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { peerProgram } from '../peers.ts';
import { runProgram } from '../run-program.ts';
import { trunkline } from '../run-trunkline.ts';
import { StandInModel } from '../stand-in-model/stand-in-model.ts';

const AT_MOST_MS = 120_000;

/** Where an agent finds the gateway and its model, and its home folder. */
export interface AgentPlaces {
  readonly program: string;
  /** Of the MCP endpoint. */
  readonly url: string;
  /** Of the stand-in for its model. */
  readonly model: string;
  readonly home: string;
}

/** A client that people use, run without a screen. It finds the gateway by the entry `tl` that `trunkline link` wrote. */
export interface Agent {
  readonly name: string;
  /** What `trunkline link` calls it. */
  readonly client: string;
  /** Its program, in `node_modules` of test/peers. */
  readonly program: string;
  /** The name under which it offers a tool of the gateway to its model. */
  readonly offers: (tool: string) => string;
  /** What the names of all tools of the gateway begin with. */
  readonly prefix: string;
  /** Files to write, by path in the home folder. */
  readonly files: (places: AgentPlaces) => Readonly<Record<string, object | string>>;
  readonly command: (places: AgentPlaces) => readonly [string, ...string[]];
  readonly env: (places: AgentPlaces) => Readonly<Record<string, string>>;
}

export interface AgentCall {
  readonly tool: string;
  readonly args: object;
}

/** What an agent did. */
export interface AgentRun {
  /** Names of the gateway's tools in its first request to the model. */
  readonly first: readonly string[];
  /** What the tools answered, as it handed it to the model. */
  readonly results: readonly string[];
  /** Why it failed; null where it ended well. */
  readonly failure: string | null;
}

/** Null where the agent could not be installed. */
export async function runAgent(agent: Agent, url: string, calls: readonly AgentCall[]): Promise<AgentRun | null> {
  const program = await peerProgram(agent.program);
  if (program === null) return null;
  const home = mkdtempSync(join(tmpdir(), 'trunkline-agent-'));
  const model = await StandInModel.start(calls.map(({ tool, args }) => ({ name: agent.offers(tool), input: args })));
  try {
    const places = { program, url, model: model.url, home };
    for (const [path, content] of Object.entries(agent.files(places))) {
      mkdirSync(dirname(join(home, path)), { recursive: true });
      writeFileSync(join(home, path), typeof content === 'string' ? content : JSON.stringify(content));
    }
    const work = join(home, 'work');
    mkdirSync(work);
    const linked = await trunkline(['link', agent.client, '--url', url, '--yes'], { cwd: work, env: { HOME: home } });
    if (linked.code !== 0) throw new Error(`${linked.out}${linked.err}`);
    const env = { PATH: process.env['PATH'], HOME: home, TMPDIR: home, ...agent.env(places) };
    const { code, out, err } = await runProgram(agent.command(places), { cwd: work, env, atMostMs: AT_MOST_MS });
    return {
      first: (model.firstOffered ?? []).filter((name) => name.startsWith(agent.prefix)),
      results: [...model.results],
      failure: code === 0 ? null : `${agent.name} ended with ${code}: ${(err || out).slice(-2000)}`,
    };
  } finally {
    await model.close();
    rmSync(home, { recursive: true, force: true });
  }
}
