import { type Infer, oneOf } from './schema.ts';

/** What the control API lists beside servers, and readers are told to read again. */
export const WATCHED_LIST = oneOf(['drift', 'tasks', 'configuration', 'nodes', 'recordings']);
export type WatchedList = Infer<typeof WATCHED_LIST>;
