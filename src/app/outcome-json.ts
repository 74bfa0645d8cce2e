import type { Outcome } from '../model/outcome.ts';

/** An outcome as one JSON text, with the server's result or error exactly as it wrote it. */
export function outcomeJson(outcome: Outcome): Buffer {
  if (outcome.kind === 'failure') {
    const { error } = outcome;
    const body = { code: error.rpcCode, name: error.code, message: error.message, data: error.data };
    return Buffer.from(JSON.stringify({ outcome: error.outcome, error: body }));
  }
  const { message } = outcome;
  const member = message.kind === 'error' ? 'error' : 'result';
  return Buffer.concat([Buffer.from(`{"outcome":"RESULT","${member}":`), message.body, Buffer.from('}')]);
}
