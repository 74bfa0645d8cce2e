/** Deepest nesting of a document: twice what any client's file has. */
export const MAX_DEPTH = 64;
/** Parts (values, keys, tokens) of a document: 2 000 servers take about half. Bounds the time of every parser. */
export const MAX_PARTS = 200_000;
