import type { Message } from '../../model/message.ts';
import { isScanFailure, type ScanFailure, scanBatch, scanMessage } from '../../protocol/scan.ts';

/** The messages of a JSON-RPC batch (2025-03-26), or why the whole batch is refused. */
export function readBatch(body: Buffer): Message[] | ScanFailure {
  const parts = scanBatch(body);
  if (isScanFailure(parts)) return parts;
  const messages: Message[] = [];
  for (const part of parts) {
    const message = scanMessage(part, 'stateful', 'strict');
    if (isScanFailure(message)) return { code: 'INVALID_REQUEST', reason: `in a batch: ${message.reason}`, id: '' };
    messages.push(message);
  }
  return messages;
}
