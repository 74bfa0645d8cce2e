import { GatewayError } from '../../model/gateway-error.ts';
import type { ToolArguments } from './agent-client.ts';

/** The arguments as JSON text; a text that came as one stays to the character. Throws GatewayError INVALID_PARAMS. */
function argumentsText(args: ToolArguments | undefined): string {
  if (args === undefined || args === null) return '{}';
  let value: unknown = args;
  try {
    if (typeof args === 'string') value = JSON.parse(args);
  } catch (cause) {
    throw new GatewayError('INVALID_PARAMS', 'the arguments are not JSON', { cause });
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new GatewayError('INVALID_PARAMS', 'the arguments have to be one JSON object');
  }
  return typeof args === 'string' ? args : JSON.stringify(args);
}

/** Params of `tools/call`. It has a progress token when the program wants progress. */
export function callParams(tool: string, args: ToolArguments | undefined, withProgress: boolean): string {
  const meta = withProgress ? ',"_meta":{"progressToken":1}' : '';
  return `{"name":${JSON.stringify(tool)},"arguments":${argumentsText(args)}${meta}}`;
}
