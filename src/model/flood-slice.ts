/** What a flood of one server may keep everything else waiting in one turn of the event loop. */
export const FLOOD_SLICE_MS = 0.5;

/** Where less came in one read the system has nothing more at once: it is taken as it comes. */
export const LARGE_READ_BYTES = 16 * 1024;
