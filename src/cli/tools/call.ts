import { type ServerStatus, UP } from '../../model/server-state.ts';
import { accessGateway, type GatewayAccess, type ListedTool } from '../access/gateway-access.ts';
import type { CommandInput } from '../command-input.ts';
import { CommandError, EXIT, type ExitCode, noSuch } from '../exit-code.ts';
import { argumentsFromWords, type ParameterTypes } from './tool-arguments.ts';

export interface CallInput extends CommandInput {
  /** `server.tool`, or an exposed name. */
  readonly tool: string;
  readonly words: readonly string[];
  /** All arguments as one JSON object, instead of words. */
  readonly argumentsJson: string | null;
}

interface CallAnswer {
  readonly outcome: string;
  readonly result?: {
    readonly content?: readonly ContentBlock[];
    readonly structuredContent?: unknown;
    readonly isError?: boolean;
  };
  readonly error?: { readonly name?: string; readonly code: number; readonly message: string };
}

interface ContentBlock {
  readonly type: string;
  readonly text?: string;
  readonly mimeType?: string;
  readonly uri?: string;
}

/** `trunkline call server.tool key=value …`: prints the text of the result, or with --json the whole of it. */
export async function call(input: CallInput): Promise<ExitCode> {
  const { terminal, flags } = input;
  const gateway = await accessGateway(input);
  try {
    const tool = await find(input.tool, gateway);
    const json = input.argumentsJson ?? argumentsFromWords(input.words, parameterTypes(tool.definition));
    if (input.argumentsJson !== null) checkObject(json);
    const text = await gateway.call(tool.server, tool.name, json);
    const answer = JSON.parse(text) as CallAnswer;
    if (flags.json === true) terminal.out(`${text}\n`);
    else if (answer.error !== undefined) terminal.err(`${answer.outcome}: ${answer.error.message}\n`);
    else terminal.out(`${readable(answer.result)}\n`);
    return exitCode(answer);
  } finally {
    await gateway.close();
  }
}

async function find(wanted: string, gateway: GatewayAccess): Promise<ListedTool> {
  const tools = await gateway.tools();
  const exposed = tools.find((tool) => wanted === tool.exposedName);
  if (exposed !== undefined) return exposed;
  const found = tools.find((tool) => wanted === `${tool.server}.${tool.name}`);
  // Names of servers and of tools may have dots: `a.b.c` is a tool of `a` or of `a.b`.
  const spelled = (await gateway.statuses()).filter(({ name }) => wanted.startsWith(`${name}.`));
  if (found !== undefined && spelled.length < 2) return found;
  if (found !== undefined) {
    const servers = spelled.map(({ name }) => name).join(' or ');
    const message = `"${wanted}" can mean a tool of ${servers}: call that of ${found.server} as ${found.exposedName}`;
    throw new CommandError(EXIT.usage, message);
  }
  const server = spelled[0];
  if (server !== undefined && !tools.some((tool) => tool.server === server.name)) throw unlisted(server);
  const names = tools.map((tool) => `${tool.server}.${tool.name}`);
  throw noSuch(`tool "${wanted}"`, wanted, names, '; trunkline tools lists them');
}

/** A server that offers nothing may well have the tool: what keeps it from saying so is the answer. */
function unlisted({ name, state, reason }: ServerStatus): CommandError {
  const why = reason === null ? `it is ${state}` : reason;
  if (state === 'auth_required') return new CommandError(EXIT.authRequired, `${name} requires a login: ${why}`);
  if (UP.has(state)) return new CommandError(EXIT.usage, `${name} has no tools`);
  return new CommandError(EXIT.unreachable, `the server ${name} is not there: ${why}`);
}

function parameterTypes(definition: string): ParameterTypes {
  return (JSON.parse(definition) as { inputSchema?: { properties?: ParameterTypes } }).inputSchema?.properties ?? {};
}

function checkObject(json: string): void {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (error) {
    throw new CommandError(EXIT.usage, `the arguments are not JSON: ${(error as Error).message}`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new CommandError(EXIT.usage, 'the arguments have to be one JSON object');
  }
}

function readable(result: CallAnswer['result']): string {
  const blocks = (result?.content ?? []).map(
    (block) => block.text ?? `[${block.type} ${block.mimeType ?? block.uri ?? ''}]`,
  );
  if (blocks.length > 0) return blocks.join('\n');
  return JSON.stringify(result?.structuredContent ?? result ?? {}, null, 2);
}

function exitCode({ outcome, result, error }: CallAnswer): ExitCode {
  if (outcome === 'NOT_SENT') return EXIT.unreachable;
  if (error?.name === 'AUTH_REQUIRED') return EXIT.authRequired;
  return error !== undefined || result?.isError === true || outcome !== 'RESULT' ? EXIT.toolError : EXIT.ok;
}
