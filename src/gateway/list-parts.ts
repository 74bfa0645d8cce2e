import type { CursorCodec } from '../catalog/cursor.ts';
import type { AnswerCache } from './cache/answer-cache.ts';
import type { CommonParts } from './common-parts.ts';
import type { Catalogs } from './lists/catalogs.ts';
import type { SeenSessions } from './lists/seen-sessions.ts';
import type { ResourceWatches } from './subscriptions/resource-watches.ts';
import type { SharedListens } from './subscriptions/shared-listens.ts';

/** Dependencies of parts that also use catalogs, sessions and subscriptions. */
export interface ListParts extends CommonParts {
  readonly cursors: CursorCodec;
  readonly catalogs: Catalogs;
  readonly sessions: SeenSessions;
  readonly cache: AnswerCache;
  readonly watches: ResourceWatches;
  readonly sharedListens: SharedListens;
}
