import type { ClientProfile } from '../../model/client-profile.ts';
import { ANONYMOUS } from '../../model/principal.ts';
import { LATEST_STATEFUL } from '../../model/revision.ts';
import { fingerprint } from '../../protocol/canonical.ts';

const NO_CAPABILITIES = '{}';

/**
 * A client that stands in where there is none: for starts ahead of the first client, with the capabilities of the one
 * that was here last, and for connections everybody shares, where no capability may be promised.
 */
export function standIn(info: string | null, capabilities: string = NO_CAPABILITIES): ClientProfile {
  return {
    principal: ANONYMOUS,
    sessionId: null,
    revision: LATEST_STATEFUL,
    capabilities,
    fingerprint: fingerprint(capabilities),
    info,
    logLevel: null,
    handle: null,
  };
}
