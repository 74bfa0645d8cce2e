import type { Endpoint } from '../model/exchange.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import { failureAnswer, toolFailure } from '../protocol/compose.ts';
import { namedParam } from './params.ts';
import { asksForTask } from './tasks/task-ids.ts';

/**
 * The answer for a failure. Stateful clients of the aggregate get failed tool calls as `isError` results with the texts of
 * S2.31, which a model can read. Everything else is a JSON-RPC error of its era, also if the call names no tool (S2.1), or asks
 * for a task, whose client would take a result for a task.
 */
export function shapeFailure(request: Message, endpoint: Endpoint, error: GatewayError): Message {
  if (request.era === 'stateful') {
    if (endpoint.kind === 'aggregate' && request.method === 'tools/call' && names(request) && !asksForTask(request)) {
      return toolFailure(request.id, error, toolFailureText(error));
    }
    return failureAnswer(request.id, error, 'stateful', dataOf(request, error));
  }
  return failureAnswer(request.id, inStateless(error), 'stateless', dataOf(request, error));
}

function names(request: Message): boolean {
  return !(namedParam(request, 'name') instanceof GatewayError);
}

/** The data of the error for a missing resource: its URI (server/resources §Error Handling). */
function dataOf(request: Message, error: GatewayError): string | undefined {
  if (error.code !== 'RESOURCE_NOT_FOUND') return undefined;
  const uri = namedParam(request, 'uri');
  return uri instanceof GatewayError ? undefined : JSON.stringify({ uri: uri.value });
}

/** The text of a failed tool call for the model (S2.31). */
function toolFailureText(error: GatewayError): string {
  switch (error.code) {
    case 'ACCESS_DENIED':
      return error.forCallers;
    case 'INVALID_PARAMS':
      return error.forCallers.startsWith('Invalid tool name: ') ? error.forCallers : `Error: ${error.forCallers}`;
    default:
      return `Error calling tool: ${error.forCallers}`;
  }
}

/** 2026-07-28 has no separate code for a missing resource (server/resources §Error Handling). */
function inStateless(error: GatewayError): GatewayError {
  if (error.code !== 'RESOURCE_NOT_FOUND') return error;
  return new GatewayError('INVALID_PARAMS', error.message, { cause: error });
}
