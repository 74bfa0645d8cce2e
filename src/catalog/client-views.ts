/**
 * What clients make of the tools of this gateway before their models see them: as far as documentation and reports of
 * their users say. A version of a client may differ.
 */

import { CLIENT_TITLES, type KnownClient } from '../model/client-titles.ts';

/** What a client does with a name that is too long: leaves the tool out, shortens the name, or the model's API refuses all tools. */
export type LongName = 'dropped' | 'shortened' | 'refused';

interface ClientRule {
  readonly id: KnownClient;
  /** The name as the model gets it, before it is shortened. `gateway`: what the client's file calls the gateway. */
  readonly shown: (gateway: string, tool: string) => string;
  readonly limit: number;
  readonly beyond: LongName;
  /** Characters that the client counts beside those it shows. */
  readonly uncounted?: (gateway: string) => number;
  /** Definitions of more tokens than this are not sent until the model searches for a tool; null where it never defers. */
  readonly defersAbove: number | null;
  /** The most tools that it sends to a model; null for no known limit. */
  readonly maxTools: number | null;
}

const plain = (name: string): string => name.replace(/[^A-Za-z0-9_-]/g, '_');

const RULES: readonly ClientRule[] = [
  {
    id: 'claude-code',
    shown: (gateway, tool) => `mcp__${plain(gateway)}__${plain(tool)}`,
    limit: 64,
    beyond: 'refused',
    // A tenth of a context of 200,000 tokens.
    defersAbove: 20_000,
    maxTools: null,
  },
  {
    id: 'codex',
    shown: (gateway, tool) => `mcp__${plain(gateway)}__${plain(tool)}`.replaceAll('-', '_'),
    limit: 64,
    beyond: 'shortened',
    defersAbove: null,
    maxTools: null,
  },
  {
    id: 'cursor',
    shown: (_gateway, tool) => tool,
    uncounted: (gateway) => gateway.length,
    limit: 60,
    beyond: 'dropped',
    defersAbove: null,
    maxTools: null,
  },
  {
    id: 'gemini',
    shown: (gateway, tool) => `mcp_${gateway}_${tool}`.replace(/[^A-Za-z0-9_.:-]/g, '_'),
    limit: 63,
    beyond: 'shortened',
    defersAbove: null,
    maxTools: null,
  },
  {
    id: 'vscode',
    // The prefix is 18 characters at most.
    shown: (gateway, tool) => `${`mcp_${plain(gateway).toLowerCase()}`.slice(0, 17)}_${plain(tool)}`,
    limit: 64,
    beyond: 'shortened',
    defersAbove: null,
    maxTools: 128,
  },
  {
    id: 'opencode',
    shown: (gateway, tool) => `${plain(gateway)}_${plain(tool)}`,
    limit: 64,
    beyond: 'refused',
    defersAbove: null,
    maxTools: null,
  },
];

/** A tool as a client has it. */
export interface ClientTool {
  readonly server: string;
  readonly exposedName: string;
  /** Before the client shortens it. */
  readonly shown: string;
  /** As the client counts it. */
  readonly length: number;
  /** null where the name fits. */
  readonly beyond: LongName | null;
  readonly tokens: number;
}

/** All tools as one client has them. */
export interface ClientView {
  readonly client: string;
  readonly title: string;
  readonly limit: number;
  readonly maxTools: number | null;
  /** Tools whose names fit or are shortened. */
  readonly offered: number;
  /** Of what is offered, before anything is deferred. */
  readonly tokens: number;
  readonly deferred: boolean;
  readonly tools: readonly ClientTool[];
}

export type CountedTool = Pick<ClientTool, 'server' | 'exposedName' | 'tokens'>;

/** `client`: a `KnownClient`, or null for all. */
export function clientViews(tools: readonly CountedTool[], gateway: string, client: string | null): ClientView[] {
  return RULES.filter(({ id }) => client === null || id === client).map((rule) => {
    const own = tools.map((tool) => clientTool(rule, gateway, tool));
    const offered = own.filter(({ beyond }) => beyond === null || beyond === 'shortened');
    const tokens = offered.reduce((sum, tool) => sum + tool.tokens, 0);
    return {
      client: rule.id,
      title: CLIENT_TITLES[rule.id],
      limit: rule.limit,
      maxTools: rule.maxTools,
      offered: offered.length,
      tokens,
      deferred: rule.defersAbove !== null && tokens > rule.defersAbove,
      tools: own,
    };
  });
}

function clientTool(rule: ClientRule, gateway: string, { server, exposedName, tokens }: CountedTool): ClientTool {
  const shown = rule.shown(gateway, exposedName);
  const length = shown.length + (rule.uncounted?.(gateway) ?? 0);
  return { server, exposedName, shown, length, beyond: length > rule.limit ? rule.beyond : null, tokens };
}

/** Bytes of a definition that are counted as one token: a rule of thumb for English text and JSON, not a tokenizer. */
const BYTES_OF_TOKEN = 4;

export function estimatedTokens(bytes: number): number {
  return Math.ceil(bytes / BYTES_OF_TOKEN);
}
