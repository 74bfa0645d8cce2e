import { createHash } from 'node:crypto';
import type { Server } from '../../model/server.ts';
import { transportFacts } from '../../model/transport-facts.ts';

type Digested = Pick<Server, 'transport' | 'isolation' | 'isolationHeader'> & { readonly maxMessageBytes: number };

/**
 * Equal digests: a connection made for one definition serves the other. Covers what the connection is made of
 * (S3.12: type, command, arguments in order, environment, url, headers) and who may share it; not the name, the
 * description, deadlines or filters, which take effect without a new connection.
 */
export function connectionDigest({ transport, isolation, isolationHeader, maxMessageBytes }: Digested): string {
  const facts = [transportFacts(transport), isolation, isolationHeader?.toLowerCase() ?? null, maxMessageBytes];
  return createHash('sha256').update(JSON.stringify(facts)).digest('hex');
}
