import type { ClientProfile } from '../../model/client-profile.ts';
import type { Era } from '../../model/message.ts';
import type { Tenancy } from './tenancy.ts';

/** A connection that somebody needs: whose it will be, under which key, and what is presented on it. */
export interface Wanted {
  /** null where it is to be found out. */
  readonly era: Era | null;
  readonly key: string;
  readonly tenancy: Tenancy;
  readonly profile: ClientProfile;
}
