/** What a flood of one server may keep everything else waiting in one turn of the event loop. */
export const FLOOD_SLICE_MS = 0.5;

/**
 * How long it is left alone then. The loop belongs to the others for the greater part: a call passes it four times, and
 * would meet a slice each time.
 */
export const FLOOD_REST_MS = 2;

/** Where less came in one read the system has nothing more at once: it is taken as it comes. */
export const LARGE_READ_BYTES = 16 * 1024;
