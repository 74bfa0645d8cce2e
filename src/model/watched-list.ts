import { type Infer, oneOf } from './schema.ts';

/** Lists of the control API, in addition to servers, whose changes the live stream announces. */
export const WATCHED_LIST = oneOf(['drift', 'tools', 'tasks', 'configuration', 'nodes', 'recordings']);
export type WatchedList = Infer<typeof WATCHED_LIST>;
