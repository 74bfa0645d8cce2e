import { runAgent } from '../agents/agent.ts';
import { AGENTS } from '../agents/agents.ts';
import { peerProgram } from '../peers.ts';
import { RecordingRelay } from '../recording-relay.ts';
import type { Published } from './published.ts';
import { SDK_CLIENTS } from './sdk-clients.ts';

/** The result of the first client of a kind. */
export interface FirstList {
  /** Names of the tools in the first list that the gateway gave it. */
  readonly delivered: readonly string[];
  /** The delivered tools that the client does not offer, by rules of its own. */
  readonly leftOut: readonly string[];
  /** Descriptions; empty if all went well. */
  readonly problems: readonly string[];
}

/** A kind of client: an agent with a stand-in for its model, or a program with an official SDK. */
export interface ClientKind {
  readonly name: string;
  /** Must run while there is a network. Resolves to false if the client is not available. */
  prepare(): Promise<boolean>;
  /** Connects, lists, and calls one tool of each server that has a call; `expected` has to be in the first list. */
  first(mcpUrl: string, servers: readonly Published[], expected: readonly string[]): Promise<FirstList>;
}

interface Seen {
  readonly shown: readonly string[];
  readonly results: readonly string[];
  readonly failure: string | null;
}

type See = (url: string, calls: readonly { readonly tool: string; readonly args: object }[]) => Promise<Seen>;

async function first(
  see: See,
  offers: (tool: string) => string,
  ...[mcpUrl, servers, expected]: Parameters<ClientKind['first']>
): Promise<FirstList> {
  const calls = servers.flatMap(({ name, call }) =>
    call === undefined ? [] : [{ tool: `${name}__${call.tool}`, args: call.args, answer: call.answer }],
  );
  const relay = await RecordingRelay.start(mcpUrl);
  try {
    const { shown, results, failure } = await see(relay.url, calls);
    const delivered = relay.lists[0] ?? [];
    const lacking = expected.filter((tool) => !delivered.includes(tool));
    const unanswered = calls.flatMap(({ tool, answer }, i) =>
      results[i]?.includes(answer) === true ? [] : [`${tool}: ${(results[i] ?? 'no answer').slice(0, 300)}`],
    );
    const problems = [
      ...(failure === null ? [] : [failure]),
      ...(lacking.length === 0 ? [] : [`its first list lacks ${lacking.length} of ${expected.length}: ${lacking}`]),
      ...unanswered,
    ];
    return { delivered, leftOut: delivered.filter((tool) => !shown.includes(offers(tool))), problems };
  } finally {
    await relay.close();
  }
}

export const CLIENT_KINDS: readonly ClientKind[] = [
  ...AGENTS.map((agent): ClientKind => {
    const see: See = async (url, calls) => {
      const run = await runAgent(agent, url, calls);
      return { shown: run?.first ?? [], results: run?.results ?? [], failure: run === null ? 'gone' : run.failure };
    };
    return {
      name: agent.name,
      prepare: async () => (await peerProgram(agent.program)) !== null,
      first: (...what) => first(see, agent.offers, ...what),
    };
  }),
  ...SDK_CLIENTS.map((client): ClientKind => {
    const see: See = async (url, calls) => {
      const { tools, results } = await client.run(url, calls);
      return { shown: tools, results, failure: null };
    };
    return {
      name: client.name,
      prepare: () => client.prepare(),
      first: (...what) => first(see, (tool) => tool, ...what),
    };
  }),
];
