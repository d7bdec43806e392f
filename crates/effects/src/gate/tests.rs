mod breaker;
mod bucket;
mod gate;
