import type { Message } from '../../model/message.ts';
import { isBatch, isScanFailure, type ScanFailure, scanBatch, scanMessage } from '../../protocol/scan.ts';

/** Revisions whose sessions may send JSON-RPC batches; 2025-06-18 removed them. */
const BATCHES: readonly string[] = ['2024-11-05', '2025-03-26'];

/** The messages of a document that is one message, or a batch if a session of this revision has begun; or why it is refused. */
export function readMessages(bytes: Buffer, revision: string | null): Message[] | ScanFailure {
  if (revision !== null && isBatch(bytes)) return readBatch(bytes, revision);
  const message = scanMessage(bytes, 'stateful', 'strict');
  return isScanFailure(message) ? message : [message];
}

/** The messages of a JSON-RPC batch in a session of this revision, or why the whole batch is refused. */
export function readBatch(body: Buffer, revision: string): Message[] | ScanFailure {
  const parts = scanBatch(body);
  const isJson = !isScanFailure(parts) || parts.code !== 'PARSE_ERROR';
  if (isJson && !BATCHES.includes(revision)) {
    return {
      code: 'INVALID_REQUEST',
      reason: `revision ${revision} has no batches: send each message on its own`,
      id: '',
    };
  }
  if (isScanFailure(parts)) return parts;
  const messages: Message[] = [];
  for (const part of parts) {
    // A copy: a short message in flight would keep the whole batch in memory.
    const message = scanMessage(Buffer.from(part), 'stateful', 'strict');
    if (isScanFailure(message)) return { code: 'INVALID_REQUEST', reason: `in a batch: ${message.reason}`, id: '' };
    messages.push(message);
  }
  return messages;
}
