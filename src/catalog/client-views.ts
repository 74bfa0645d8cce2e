/**
 * How clients change the gateway's tools before their models see them, as documentation and user reports describe it.
 * Versions of a client may differ.
 */

import { CLIENT_TITLES, type KnownClient } from '../model/client-titles.ts';

/** The effect of a long name: the client omits the tool or shortens the name, or the model's API refuses all tools. */
type LongName = 'dropped' | 'shortened' | 'refused';

interface ClientRule {
  readonly id: KnownClient;
  /** The name as the model gets it, before it is shortened. `gateway`: the gateway's name in the client's configuration. */
  readonly shown: (gateway: string, tool: string) => string;
  readonly limit: number;
  readonly beyond: LongName;
  /** Characters that the client counts in addition to the shown name. */
  readonly extraLength?: (gateway: string) => number;
  /** Above this number of tokens, the client defers definitions until the model searches for a tool; null if it never does. */
  readonly defersAbove: number | null;
  /** The maximum number of tools that the client sends to a model; null without a known limit. */
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
    extraLength: (gateway) => gateway.length,
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

/** A tool as one client presents it. */
interface ClientTool {
  readonly server: string;
  readonly exposedName: string;
  /** The name before the client shortens it. */
  readonly shown: string;
  /** The length as the client counts it. */
  readonly length: number;
  /** null if the name fits. */
  readonly beyond: LongName | null;
  readonly tokens: number;
}

/** All tools as one client presents them. */
export interface ClientView {
  readonly client: string;
  readonly title: string;
  readonly limit: number;
  readonly maxTools: number | null;
  /** The number of tools whose names fit or are shortened. */
  readonly offered: number;
  /** Tokens of the offered tools, before any are deferred. */
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
  const length = shown.length + (rule.extraLength?.(gateway) ?? 0);
  return { server, exposedName, shown, length, beyond: length > rule.limit ? rule.beyond : null, tokens };
}

/** Bytes that count as one token: a rule of thumb for English text and JSON, not a tokenizer. */
const BYTES_OF_TOKEN = 4;

export function estimatedTokens(bytes: number): number {
  return Math.ceil(bytes / BYTES_OF_TOKEN);
}
